// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// liveEtcd returns the Etcd of a task as the API server has it. A size, or a recovery, that the cache does not show yet would leave
// volumes out of the survey, or members with the wrong configuration.
func (h *Handler) liveEtcd(ctx context.Context, task tasks.Task) (*v1alpha1.Etcd, error) {
	etcd, key := &v1alpha1.Etcd{}, client.ObjectKeyFromObject(task.Etcd)
	if err := h.Live.Get(ctx, key, etcd); err != nil {
		return nil, coded(fmt.Errorf("reading Etcd %s: %w", key, err))
	}
	if etcd.UID != task.Etcd.UID {
		return nil, coded(fmt.Errorf("reading Etcd %s: it is another one now, with UID %s", key, etcd.UID))
	}
	return etcd, nil
}

// newestBackup describes the newest full snapshot that the agents have recorded; empty when there is none.
func (h *Handler) newestBackup(ctx context.Context, etcd *v1alpha1.Etcd) (string, error) {
	if component.BackupStore(etcd) == nil {
		return "", nil
	}
	leases, err := observe.ReadSnapshotLeases(ctx, h.Live, etcd)
	if err != nil {
		return "", coded(err)
	}
	lease := leases.Full
	if lease == nil {
		return "", nil
	}
	revision := ptr.Deref(lease.Spec.HolderIdentity, "")
	if revision == "" || lease.Spec.RenewTime == nil {
		return "", nil
	}
	return fmt.Sprintf("a full snapshot at revision %s of %s, and the deltas since", revision, lease.Spec.RenewTime.UTC().Format(time.RFC3339)), nil
}
