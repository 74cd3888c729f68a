// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func newClaim(wants, has string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(wants)}
	if has != "" {
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
	return claim
}

func provision(t *testing.T, dir string) *corev1.PersistentVolume {
	t.Helper()
	policy := corev1.PersistentVolumeReclaimDelete
	volume, _, err := hostPath{dir: dir}.Provision(context.Background(), controller.ProvisionOptions{
		PVName: "pvc-1", PVC: newClaim("1Gi", ""), SelectedNodeName: "n1",
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: &policy},
	})
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

func TestVolumeIsOpenToAllAndGoesWithItsContent(t *testing.T) {
	dir := t.TempDir()
	volume := provision(t, dir)
	path := filepath.Join(dir, "pvc-1")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Fatalf("got %v, %v", info, err)
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.HostPath.Path != path {
		t.Errorf("got %+v", volume.Spec)
	}
	if err := os.WriteFile(filepath.Join(path, "member"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // deleting may be retried
		if err := (hostPath{dir: dir}).Delete(context.Background(), volume); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestOnlyOwnFoldersAreDeleted(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	volume := provision(t, dir)
	for _, path := range []string{precious, dir, filepath.Join(dir, "pvc-2")} {
		volume.Spec.HostPath.Path = path
		var ignored *controller.IgnoredError
		if err := (hostPath{dir: dir}).Delete(context.Background(), volume); !errors.As(err, &ignored) {
			t.Errorf("%s: got error %v", path, err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestWithoutANodeThereIsNoVolume(t *testing.T) {
	_, _, err := hostPath{dir: t.TempDir()}.Provision(context.Background(), controller.ProvisionOptions{PVName: "pvc-1", PVC: newClaim("1Gi", "")})
	if err == nil {
		t.Error("no error")
	}
}

func TestWantsMore(t *testing.T) {
	for _, test := range []struct {
		wants, has string
		want       bool
	}{
		{"1Gi", "", false}, {"1Gi", "1Gi", false}, {"2Gi", "1Gi", true}, {"1Gi", "2Gi", false}, {"1024Mi", "1Gi", false},
	} {
		if got := wantsMore(newClaim(test.wants, test.has)); got != test.want {
			t.Errorf("wants %s, has %q: got %t", test.wants, test.has, got)
		}
	}
}
