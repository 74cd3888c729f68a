// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	batchv1 "k8s.io/api/batch/v1"
)

var all = flag.Bool("crash-all", false, "every kind of disturbance at every write, which takes minutes")

// disturbances at the k-th write. Without -crash-all only the operator's death and lost answers are tried; where the controller of Etcds takes
// part, which takes longer, one of these at each third write.
func (s scenario) disturbances(k int) []disturbance {
	kinds := []disturbance{{at: k, fate: disturb.KilledBefore}, {at: k, fate: disturb.KilledAfter}, {at: k, fate: disturb.AnswerLost}}
	switch {
	case *all:
	case !s.whole:
		return kinds
	case k%3 != 0:
		return nil
	default:
		return kinds[k/3%3:][:1]
	}
	kinds = append(kinds, disturbance{at: k, fate: disturb.NotSent})
	for i, kind := range inmemory.Kinds() {
		// One that is held for ten minutes, and one that is late by a round or two: its events come after those of all other kinds.
		kinds = append(kinds, disturbance{at: k, hold: []string{kind}, long: 10 * time.Minute}, disturbance{at: k, hold: []string{kind}, long: time.Second})
		for _, other := range inmemory.Kinds()[i+1:] {
			kinds = append(kinds, disturbance{at: k, hold: []string{kind, other}, long: 5 * time.Second})
		}
	}
	// Everything is from an older revision.
	return append(kinds, disturbance{at: k, hold: inmemory.Kinds(), long: 30 * time.Second})
}

func (d disturbance) String() string {
	if len(d.hold) > 0 {
		return fmt.Sprintf("%v held for %s", d.hold, d.long)
	}
	return d.fate.String()
}

// Whatever write the operator is killed at, the next one brings the task to the end that it would have come to, and does nothing twice.
func TestEveryWrite(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			want := perform(t, s, disturbance{})
			t.Logf("undisturbed it takes %s, and ends as\n%s\n%s", time.Since(begun).Round(time.Millisecond), want.state, want.acts)
			if len(want.broken) > 0 || !strings.Contains(want.state, "task Succeeded") {
				t.Fatalf("undisturbed: broken %v, writes %v", want.broken, want.writes)
			}
			t.Logf("%d writes: %v", len(want.writes), want.writes)
			runs := 0
			for k := 1; k <= len(want.writes); k++ {
				for _, d := range s.disturbances(k) {
					runs++
					got := perform(t, s, d)
					if len(got.broken) > 0 {
						t.Errorf("%s at %s: %v", d, want.writes[k-1], got.broken)
					}
					if got.state != want.state || got.acts != want.acts {
						t.Errorf("%s at %s: it ends as\n%s\n%s\nand not as\n%s\n%s", d, want.writes[k-1], got.state, got.acts, want.state, want.acts)
					}
					if t.Failed() {
						t.Logf("writes: %v\nstatus: %s", got.writes, got.why)
						return
					}
				}
				if *all {
					t.Logf("%d runs, up to write %d", runs, k)
				}
			}
			t.Logf("%d runs", runs)
		})
	}
}

func scenarios() []scenario {
	return []scenario{
		{name: "rollout", taskType: v1alpha1.QuorumAwareRollout, outdate: true},
		{name: "restart", taskType: v1alpha1.QuorumAwareRollout, config: "restart: true"},
		{name: "maintenance", taskType: v1alpha1.OnDemandMaintenance, config: "{etcdCompaction: true, etcdDefragmentation: true}"},
		{name: "snapshot", taskType: v1alpha1.OnDemandSnapshot, config: "type: full"},
		{name: "compaction", taskType: v1alpha1.OnDemandCompaction, result: func(*batchv1.Job) string { return `{"revision": 7, "createdOn": "2000-01-01T00:10:00Z"}` }},
		{name: "copy", taskType: v1alpha1.CopyBackups, config: "sourceStore: {provider: Local, container: store, prefix: a/main}\ntargetStore: {provider: Local, container: store, prefix: b/copy}"},
		{name: "recreate", taskType: v1alpha1.RecreateRollout, outdate: true, whole: true, alone: true},
		{name: "grow", taskType: v1alpha1.MembershipChange, whole: true, from: 1, replicas: 3},
		{name: "shrink", taskType: v1alpha1.MembershipChange, whole: true, from: 3, replicas: 1},
		{name: "restore", taskType: v1alpha1.Restore, config: disturb.Restored, whole: true, result: disturb.Previewed},
		{name: "undo", taskType: v1alpha1.Restore, config: "undo: before", whole: true, undoes: true, result: disturb.Previewed},
		{name: "undo by the final snapshot", taskType: v1alpha1.Restore, config: "undo: before", whole: true, undoes: true, forgotten: true, result: disturb.Previewed},
		{name: "surge", taskType: v1alpha1.QuorumAwareRollout, config: "restart: true", whole: true, from: 1, surges: true},
		{name: "move", taskType: v1alpha1.MembershipChange, whole: true, from: 3, moves: true},
		{name: "recovery", taskType: v1alpha1.QuorumLossRecovery, whole: true, lost: true, result: disturb.Surveyed},
	}
}
