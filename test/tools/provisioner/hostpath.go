// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// hostPath creates and deletes the folders that are the volumes.
type hostPath struct {
	dir string // holds one folder per volume, named as the volume
}

var _ controller.Provisioner = hostPath{}

// Provision creates the folder of a volume and returns the volume, bound to the
// node that the scheduler chose.
func (p hostPath) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if options.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf(
			"no node selected for claim %s: the StorageClass needs volumeBindingMode WaitForFirstConsumer", options.PVC.Name)
	}
	path := filepath.Join(p.dir, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("creating volume %s: %w", options.PVName, err)
	}
	// kubelet does not apply fsGroup to a hostPath, and mkdir obeys the umask.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("opening volume %s to all users: %w", options.PVName, err)
	}
	return newVolume(options, path), controller.ProvisioningFinished, nil
}

// Delete removes the folder of a volume with all that is in it.
func (p hostPath) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	path := filepath.Join(p.dir, volume.Name)
	// A user who may edit a volume must not be able to choose what root deletes.
	if volume.Spec.HostPath == nil || volume.Spec.HostPath.Path != path {
		return &controller.IgnoredError{Reason: fmt.Sprintf("volume %s is not at %s", volume.Name, path)}
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("deleting volume %s: %w", volume.Name, err)
	}
	return nil
}

func newVolume(options controller.ProvisionOptions, path string) *corev1.PersistentVolume {
	hostPathType := corev1.HostPathDirectory
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			Capacity:                      options.PVC.Spec.Resources.Requests,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &hostPathType},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key:      corev1.LabelHostname,
						Operator: corev1.NodeSelectorOpIn,
						Values:   []string{options.SelectedNodeName},
					}},
				}},
			}},
		},
	}
}
