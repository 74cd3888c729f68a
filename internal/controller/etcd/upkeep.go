// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// upkeep is a task that the spec has the operator make by itself. Its name says what it is for, so that whoever decides
// the same again, after a crash or beside another operator, makes no second one.
type upkeep struct {
	taskType v1alpha1.TaskType
	name     string
	config   string
	// kept is how long the task stays when it has ended: so long it is not made again.
	kept time.Duration
	// reason of the event that tells of it, and why it is due.
	reason, message string
}

// task of an Etcd.
func (u upkeep) task(etcd *v1alpha1.Etcd) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: etcd.Namespace, Name: u.name,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: etcd.Name, UID: etcd.UID,
			}},
		},
		Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: u.taskType, Config: u.config, TTLSecondsAfterFinished: ptr.To(int32(u.kept.Seconds())),
			OwnerEtcdReference: v1alpha1.EtcdReference{Name: etcd.Name},
		},
	}
}

// makeTask makes a task that is due. That it is there already says that somebody has decided the same.
func (r *Reconciler) makeTask(ctx context.Context, etcd *v1alpha1.Etcd, u upkeep) error {
	task := u.task(etcd)
	if err := r.Client.Create(ctx, task, fieldOwner); apierrors.IsAlreadyExists(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("creating task %s: %w", klog.KObj(task), err)
	}
	ctrl.LoggerFrom(ctx).Info("Created a task", "task", klog.KObj(task), "type", u.taskType, "reason", u.message)
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, u.reason, "CreateTask", "Created task %s: %s", u.name, u.message)
	return nil
}
