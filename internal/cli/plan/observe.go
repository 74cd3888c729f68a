// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/portforward"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"k8s.io/utils/clock"
)

// observation is a snapshot of a cluster, with what could not be observed.
type observation struct {
	snapshot *cluster.Snapshot
	// unreachable is why no member answered; empty if one did.
	unreachable string
	// pods has the observed pods as they were read.
	pods *read.Reader
	// surroundings is why nodes and volumes could not be read; empty if they were.
	surroundings string
}

// observeCluster observes a cluster and, through port-forwards, its members.
func observeCluster(ctx context.Context, cluster *kube.Cluster, clock clock.Clock, etcd *v1alpha1.Etcd) (*observation, error) {
	members, err := portforward.Open(ctx, cluster, clock, etcd)
	if err != nil {
		return nil, err
	}
	defer members.Close()
	o := &observation{pods: &read.Reader{Reader: cluster}}
	o.snapshot, o.surroundings, err = members.Observe(ctx, o.pods)
	if err != nil {
		return nil, err
	}
	o.unreachable = members.Unreachable(ctx, o.snapshot)
	return o, nil
}
