// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// due is a task that the spec has the operator create by itself. Its name says what it is for, so that an operator that
// decides the same again, after a crash or beside another one, creates no second one.
type due struct {
	taskType v1alpha1.TaskType
	name     string
	config   string
	// kept is how long the task is kept once it has ended: for as long it is not created again.
	kept time.Duration
	// reason of its event, and why it is due.
	reason, message string
}

// is reports whether a task is this one.
func (u due) is(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Spec.Type == u.taskType && etcdtasks.IsNamed(t, u.name)
}

// task of an Etcd.
func (u due) task(etcd *v1alpha1.Etcd) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: etcd.Namespace, Name: u.name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name},
			OwnerReferences: []metav1.OwnerReference{etcdtasks.Owner(etcd)},
		},
		Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: u.taskType, Config: u.config, TTLSecondsAfterFinished: ptr.To(int32(u.kept.Seconds())),
			OwnerEtcdReference: v1alpha1.EtcdReference{Name: etcd.Name},
		},
	}
}

// create creates a task that is due. One that exists was created for the same cause.
func (r *Reconciler) create(ctx context.Context, etcd *v1alpha1.Etcd, u due) error {
	task := u.task(etcd)
	created, err := etcdtasks.Creator{Client: r.Client, Live: r.Live, Recorder: r.Recorder}.Create(ctx, etcd, task)
	if err != nil || !created {
		return err //nolint:wrapcheck // it says which task
	}
	ctrl.LoggerFrom(ctx).Info("Created a task", logging.KeyTask, klog.KObj(task), "type", u.taskType, "reason", u.message)
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, u.reason, "CreateTask", "Created task %s: %s", task.Name, u.message)
	return nil
}
