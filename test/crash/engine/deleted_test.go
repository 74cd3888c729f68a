// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A person's task is deleted half-way while no operator runs: the next operator finds nothing of it but what it has done. It goes on by a task
// of its own, or takes it back if the spec asks for that, and no member that stays is told that it leaves. So it is if the spec is set back while
// the operator runs.
func TestATaskThatEndsHalfWay(t *testing.T) {
	listed := func(r *run, i int) bool { is, _, _ := r.world.Members.Lists(i); return is }
	votes := func(r *run, i int) bool { _, is, _ := r.world.Members.Lists(i); return is }
	for _, c := range []struct {
		name    string
		from    int32
		to      int32
		halfWay func(ctx context.Context, r *run) bool
	}{
		{"the first member is told that it leaves", 5, 3, func(ctx context.Context, r *run) bool { return len(r.told(ctx)) > 0 }},
		{"all are told", 5, 3, func(ctx context.Context, r *run) bool { return len(r.told(ctx)) == 2 }},
		{"one has left", 5, 3, func(_ context.Context, r *run) bool { return !listed(r, 4) }},
		{"two have left", 5, 3, func(_ context.Context, r *run) bool { return !listed(r, 3) }},
		{"a pod is there", 3, 5, func(ctx context.Context, r *run) bool { return r.replicas(ctx) == 4 }},
		{"a learner is listed", 3, 5, func(_ context.Context, r *run) bool { return listed(r, 3) }},
		{"it votes", 3, 5, func(_ context.Context, r *run) bool { return votes(r, 3) }},
	} {
		for _, then := range []struct {
			name          string
			deleted, back bool
		}{{"deleted", true, false}, {"deleted, and set back", true, true}, {"set back", false, true}} {
			t.Run(c.name+", "+then.name, func(t *testing.T) {
				t.Parallel()
				changing(t, c.from, func(ctx context.Context, r *run) {
					r.scenario.taskType, r.scenario.config = v1alpha1.MembershipChange, fmt.Sprintf("size: %d", c.to)
					r.resize(ctx, c.to)
					must(t, r.world.Create(ctx, r.task()))
					r.until(ctx, c.name, func() bool { return c.halfWay(ctx, r) })
					size := c.to
					if then.back {
						size = c.from
						r.resize(ctx, size)
					}
					if then.deleted {
						must(t, r.world.Delete(ctx, r.task()))
						r.operator = r.start()
					}
					r.settled(ctx, size)
					r.until(ctx, "no member is told that it leaves", func() bool {
						return !slices.ContainsFunc(r.told(ctx), func(name string) bool { return slices.Contains(r.world.Members.Names[:size], name) })
					})
				})
			})
		}
	}
}

// told returns the names of the members that were told that they leave.
func (r *run) told(ctx context.Context) []string {
	config := &corev1.ConfigMap{}
	must(r.t, r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-config"}, config))
	members, err := member.ParseMembers(config.Data[member.KeyMembers])
	must(r.t, err)
	if members == nil {
		return nil
	}
	return members.Leaving
}

func (r *run) replicas(ctx context.Context) int32 {
	set, err := r.world.StatefulSet(ctx)
	must(r.t, err)
	return *set.Spec.Replicas
}
