// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

// Source asks the cluster that the members of an Etcd are to join for its ID and its member list, by a linearizable read. It returns
// no members if no voter of it gives one.
func (o *Observer) Source(ctx context.Context, etcd *v1alpha1.Etcd) (clusterID uint64, list []etcdclient.Member) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	members := &members{observer: o, etcd: etcd, clients: map[target]etcdclient.Client{}}
	defer members.close()
	targets := sourceTargets(etcd)
	f := input{sources: statuses(ctx, members, targets, patient), lineage: lineageOf(etcd)}
	for _, i := range bestInformed(f.sources, f.clusterID()) {
		c, err := members.at(ctx, targets[i])
		if err != nil {
			continue
		}
		if list, err = c.ConfirmedMembers(ctx); err == nil {
			return f.clusterID(), list
		}
	}
	return 0, nil
}

// ThroughSource takes a Snapshot of the cluster that the members of an Etcd have joined, without its pods, which may be gone: members are
// asked at the client endpoints of the source, or else where the member list says, and none has an ordinal.
func (o *Observer) ThroughSource(ctx context.Context, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	f := input{at: o.clock.Now(), lineage: lineageOf(etcd)}
	if err := o.ask(ctx, etcd, &f); err != nil {
		return nil, err
	}
	return build(f), nil
}
