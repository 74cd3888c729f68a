// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecordArgs returns the agent's flags for the newest snapshot that the leases of an Etcd record; none if they record none. The agent
// refuses a store of signed snapshots that ends before it.
func RecordArgs(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd) ([]string, error) {
	var record backup.Record
	for _, name := range []string{etcd.FullSnapshotLeaseName(), etcd.DeltaSnapshotLeaseName()} {
		lease := &coordinationv1.Lease{}
		key := types.NamespacedName{Namespace: etcd.Namespace, Name: name}
		if err := live.Get(ctx, key, lease); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return nil, fmt.Errorf("reading lease %s: %w", key, err)
		}
		r, err := backup.ParseRecord(ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time)
		if err != nil {
			return nil, fmt.Errorf("reading lease %s: %w", key, err)
		}
		record = record.Newer(r)
	}
	if record == (backup.Record{}) {
		return nil, nil
	}
	return []string{"--recorded-revision=" + strconv.FormatInt(record.Revision, 10), "--recorded-created=" + record.Created.Format(time.RFC3339)}, nil
}
