// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	ctrl "sigs.k8s.io/controller-runtime"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdopstasks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdopstasks/status,verbs=update
// A task that owns another blocks its deletion, which takes a right to its finalizers where the API server asks for it.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdopstasks/finalizers,verbs=update
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;create;"create:OnDemandSnapshot"

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("opstask").WithOptions(controller.Options(concurrency)).
		For(&v1alpha1.EtcdOpsTask{}).Owns(&v1alpha1.EtcdOperatorTask{}).Complete(r)
}
