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

// Source is what a source cluster reports about itself.
type Source struct {
	ClusterID uint64
	// Members according to a linearizable read; none if no voter returns a list.
	Members []etcdclient.Member
	// Versions of the members that answer, by endpoint, and the largest of their databases, in bytes.
	Versions     map[string]cluster.Versions
	DatabaseSize int64
	// Alarms of the cluster.
	Alarms []etcdclient.Alarm
	// Refused: auth is enabled, and the operator is not authorized for the requests that it has to make.
	Refused bool
}

// Source queries the cluster that the members of an Etcd are to join.
func (o *Observer) Source(ctx context.Context, etcd *v1alpha1.Etcd) Source {
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
		list, err := c.ConfirmedMembers(ctx)
		if err != nil {
			continue
		}
		s := f.source(targets, list)
		if err = c.Administers(ctx); err == nil {
			s.Alarms, err = c.Alarms(ctx)
		}
		if s.Refused = etcdclient.IsAuthRefusal(err); s.Refused || err == nil {
			return s
		}
	}
	return Source{Refused: refused(ctx, members, targets)}
}

// refused reports whether a member of a source refuses to report its status, as newer releases of etcd do with auth enabled.
func refused(ctx context.Context, members *members, targets map[int]target) bool {
	for _, t := range targets {
		c, err := members.at(ctx, t)
		if err != nil {
			continue
		}
		if _, err = c.Status(ctx); etcdclient.IsAuthRefusal(err) {
			return true
		}
	}
	return false
}

func (f *input) source(targets map[int]target, list []etcdclient.Member) Source {
	s := Source{ClusterID: f.clusterID(), Members: list, Versions: map[string]cluster.Versions{}}
	for i, status := range f.sources {
		if status.ClusterID == s.ClusterID {
			s.Versions[targets[i].endpoint] = versions(status)
			s.DatabaseSize = max(s.DatabaseSize, status.DatabaseSize)
		}
	}
	return s
}

// ThroughSource takes a Snapshot of the cluster that the members of an Etcd have joined, without its pods, which may be gone: members are
// queried at the client endpoints of the source, or else at those in the member list, and none has an ordinal.
func (o *Observer) ThroughSource(ctx context.Context, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	f := input{at: o.clock.Now(), lineage: lineageOf(etcd)}
	if err := o.ask(ctx, etcd, &f); err != nil {
		return nil, err
	}
	return build(f), nil
}
