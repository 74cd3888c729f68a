// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	ctrl "sigs.k8s.io/controller-runtime"
)

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks/status,verbs=update
// A task that owns a Job blocks its deletion, which takes a right to its finalizers where the API server asks for it.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdcopybackupstasks/finalizers,verbs=update
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;delete

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	if err := ctrl.NewControllerManagedBy(mgr).Named("copybackups").WithOptions(controller.Options(concurrency)).For(&v1alpha1.EtcdCopyBackupsTask{}).Complete(r); err != nil {
		return fmt.Errorf("setting up the controller of EtcdCopyBackupsTasks: %w", err)
	}
	return nil
}
