// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// Each property decides between two pods that are the same in all that comes before it.
func TestCompareHealth(t *testing.T) {
	follower := func(changes ...func(*cluster.Ordinal)) *cluster.Ordinal {
		o := &cluster.Ordinal{Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, Serving: true, Pod: &cluster.Pod{AllContainersReady: true, BackupSidecarReady: true}}
		for _, c := range changes {
			c(o)
		}
		return o
	}
	class := func(c v1alpha1.PodClass) func(*cluster.Ordinal) { return func(o *cluster.Ordinal) { o.Class = c } }
	role := func(r v1alpha1.Role) func(*cluster.Ordinal) { return func(o *cluster.Ordinal) { o.Role = r } }
	cordoned := func(o *cluster.Ordinal) { o.Pod.Node.Cordoned = true }
	stuck := func(o *cluster.Ordinal) { o.Pod.VolumeTrouble = "no volume" }
	silent := func(o *cluster.Ordinal) { o.Serving = false }
	unready := func(o *cluster.Ordinal) { o.Pod.AllContainersReady = false }
	agentless := func(o *cluster.Ordinal) { o.Pod.BackupSidecarReady = false }
	for name, c := range map[string]struct {
		first, then         *cluster.Ordinal
		evict, sidecarFirst bool
	}{
		"dead before starting":                       {follower(class(v1alpha1.ClassDead), role(v1alpha1.RoleLeader)), follower(class(v1alpha1.ClassStarting)), false, false},
		"starting before unready":                    {follower(class(v1alpha1.ClassStarting), role(v1alpha1.RoleLeader)), follower(class(v1alpha1.ClassUnready)), false, false},
		"unready before participating":               {follower(class(v1alpha1.ClassUnready), role(v1alpha1.RoleLeader)), follower(), false, false},
		"what does not serve":                        {follower(silent, role(v1alpha1.RoleLeader)), follower(), false, false},
		"an unready container, if evicted":           {follower(unready, role(v1alpha1.RoleLeader)), follower(), true, false},
		"no unready container, if deleted":           {follower(), follower(unready, role(v1alpha1.RoleLeader)), false, false},
		"followers before the leader":                {follower(stuck), follower(role(v1alpha1.RoleLeader)), false, false},
		"the leader before a learner":                {follower(role(v1alpha1.RoleLeader)), follower(role(v1alpha1.RoleLearner)), false, false},
		"a cordoned node":                            {follower(cordoned), follower(agentless), false, true},
		"a volume that cannot be attached goes last": {follower(), follower(stuck, cordoned), false, false},
		"an agent that is not ready":                 {follower(agentless), follower(), false, true},
	} {
		if n := compareHealth(c.first, c.then, c.evict, c.sidecarFirst); n >= 0 {
			t.Errorf("%s: %d", name, n)
		}
		if n := compareHealth(c.then, c.first, c.evict, c.sidecarFirst); n <= 0 {
			t.Errorf("%s, the other way: %d", name, n)
		}
	}
	for name, c := range map[string]struct {
		x, y  *cluster.Ordinal
		evict bool
	}{
		"the same": {follower(), follower(), true},
		"an agent that is not ready, without sidecarFirst": {follower(agentless), follower(), true},
		"an unready container, without eviction":           {follower(unready), follower(), false},
	} {
		if n := compareHealth(c.x, c.y, c.evict, false); n != 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}
