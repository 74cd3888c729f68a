// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/portforward"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"k8s.io/utils/clock"
)

// view is what the page about an Etcd shows. It is a value.
type view struct {
	etcd  *v1alpha1.Etcd
	queue queue.Queue
	// leases record the newest snapshots; empty if they could not be read.
	leases observe.SnapshotLeases
	// noLeases is why the leases could not be read; empty if they were.
	noLeases string

	snapshot *cluster.Snapshot
	// trouble is why the members could not be read, unreachable why none answered; both are empty otherwise.
	trouble, unreachable string
	// databases of the members that answered, by the names of their pods.
	databases map[string]etcdclient.Database
	alarms    []etcdclient.Alarm
	// noAlarms is why the alarms could not be read; empty if they were, or if no member answered.
	noAlarms string
}

// readEtcd reads the page about an Etcd. What the user may not read is left out, with the reason.
func readEtcd(ctx context.Context, cluster *kube.Cluster, clock clock.Clock, name string) (watch.Page, error) {
	etcd, err := cluster.Etcd(ctx, name)
	if err != nil {
		return nil, err
	}
	tasks, err := cluster.Tasks(ctx, name)
	if err != nil {
		return nil, err
	}
	v := view{etcd: etcd, queue: queue.New(tasks)}
	if v.leases, err = observe.ReadSnapshotLeases(ctx, cluster, etcd); err != nil {
		v.noLeases = kube.Sentence(err)
	}
	if err := v.readMembers(ctx, cluster, clock); err != nil {
		v.trouble = kube.Sentence(err)
	}
	return v.lines, nil
}

// readMembers asks the members through port-forwards.
func (v *view) readMembers(ctx context.Context, cluster *kube.Cluster, clock clock.Clock) error {
	members, err := portforward.Open(ctx, cluster, clock, v.etcd)
	if err != nil {
		return err
	}
	defer members.Close()
	snapshot, _, err := members.Observe(ctx, cluster)
	if err != nil {
		return err
	}
	if v.unreachable = members.Unreachable(ctx, snapshot); v.unreachable != "" {
		v.snapshot = snapshot.ByReadiness()
		return nil
	}
	v.snapshot, v.databases = snapshot, members.Databases(ctx, snapshot)
	if v.alarms, err = members.Alarms(ctx, snapshot); err != nil {
		v.noAlarms = kube.Sentence(err)
	}
	return nil
}
