// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks/status,verbs=update
// A task that owns a Job blocks its deletion, which takes a right to its finalizers where the API server asks for it.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks/finalizers,verbs=update
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("copybackups").WithOptions(controller.Options(concurrency)).For(&v1alpha1.EtcdCopyBackupsTask{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(taskOfPod)).Complete(r)
}

// taskOfPod returns the task of the pod of a Job, which has its name in a label. Where there is no such task, nothing is done.
func taskOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	by, name := metav1.GetControllerOfNoCopy(pod), pod.GetLabels()[v1alpha1.LabelPartOf]
	if by == nil || by.Kind != "Job" || name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}
