// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package strategy

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// missing returns a cluster of three with one missing pod.
func missing(ordinal int) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	clustertest.Away(s, ordinal, v1alpha1.ClassMissing, "")
	return s
}

// unready returns a cluster of three with one pod that does not participate.
func unready(ordinal int, pod types.UID) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	clustertest.Away(s, ordinal, v1alpha1.ClassUnready, "")
	s.Ordinals[ordinal].Pod.UID = pod
	return s
}

// terminating returns a cluster of three in which that pod is being deleted.
func terminating(ordinal int, pod types.UID) *cluster.Snapshot {
	s := unready(ordinal, pod)
	s.Ordinals[ordinal].Class = v1alpha1.ClassTerminating
	return s
}

func left(names ...string) *cluster.Snapshot {
	s := clustertest.Healthy(1)
	s.Surplus = names
	return s
}

func both(a, b *cluster.Snapshot) *cluster.Snapshot {
	for i := range a.Ordinals {
		if b.Ordinals[i].Class != v1alpha1.ClassParticipating {
			a.Ordinals[i] = b.Ordinals[i]
		}
	}
	return a
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestTakeOverByTheStatefulSetController(t *testing.T) {
	// period is an observation, repeated every five seconds for a while, or once after a while.
	type period struct {
		seen  *cluster.Snapshot
		lasts time.Duration
		once  bool
	}
	lasts := func(s *cluster.Snapshot, d time.Duration) period { return period{s, d, false} }
	after := func(d time.Duration, s *cluster.Snapshot) period { return period{s, d, true} }
	const deadline = progressDeadline
	for name, tc := range map[string]struct {
		periods []period
		want    bool
	}{
		"every member participates":                  {[]period{after(0, clustertest.Healthy(3))}, true},
		"no replicas":                                {[]period{after(0, clustertest.Healthy(0))}, true},
		"one is unready":                             {[]period{lasts(unready(1, "a"), deadline-5*time.Second)}, false},
		"one is unready for long":                    {[]period{lasts(unready(1, "a"), deadline)}, true},
		"one is unready for long, then terminates":   {[]period{lasts(unready(1, "a"), deadline), after(5*time.Second, terminating(1, "a"))}, true},
		"its replacement does not start either":      {[]period{lasts(unready(1, "a"), deadline), after(5*time.Second, unready(1, "b"))}, false},
		"its pod is gone":                            {[]period{lasts(unready(1, "a"), deadline), after(5*time.Second, missing(1))}, false},
		"a pod is missing for long":                  {[]period{lasts(missing(1), deadline)}, true},
		"a missing pod is back":                      {[]period{lasts(missing(1), deadline), after(5*time.Second, unready(1, "a"))}, false},
		"it participated for a moment, then stopped": {[]period{lasts(unready(1, "a"), deadline), after(5*time.Second, clustertest.Healthy(3)), after(5*time.Second, unready(1, "a"))}, false},
		"one after the other is unready":             {[]period{lasts(unready(2, "a"), deadline/2), lasts(unready(1, "b"), deadline/2), lasts(unready(0, "c"), deadline/2)}, false},
		"one is unready for long, another for less":  {[]period{lasts(unready(2, "a"), 2*deadline), after(5*time.Second, both(unready(2, "a"), unready(1, "b")))}, false},
		"a short gap without observations":           {[]period{lasts(unready(1, "a"), deadline-5*time.Second), after(11*time.Second, unready(1, "a"))}, false},
		"a long gap without observations":            {[]period{lasts(unready(1, "a"), 5*time.Second), after(deadline, unready(1, "a"))}, false},
		"observed just often enough":                 {[]period{lasts(unready(1, "a"), deadline-5*time.Second), after(10*time.Second, unready(1, "a"))}, true},
		"a clock that was set back":                  {[]period{lasts(unready(1, "a"), deadline), after(-5*time.Second, unready(1, "a")), after(5*time.Second, unready(1, "a"))}, false},
		"a surplus pod terminates":                   {[]period{lasts(left("etcd-main-1"), deadline-5*time.Second)}, false},
		"a surplus pod is stuck terminating":         {[]period{lasts(left("etcd-main-1"), deadline)}, true},
		"a surplus pod is stuck, another terminates": {[]period{lasts(left("etcd-main-2"), deadline), after(5*time.Second, left("etcd-main-1", "etcd-main-2"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now, a := noon, absences{}
			see := func(s *cluster.Snapshot) { s.At = now; a = a.next(s) }
			for _, s := range tc.periods {
				if s.once {
					now = now.Add(s.lasts)
					see(s.seen)
					continue
				}
				see(s.seen)
				for range s.lasts / (5 * time.Second) {
					now = now.Add(5 * time.Second)
					see(s.seen)
				}
			}
			NewWithT(t).Expect(a.mayRoll()).To(Equal(tc.want))
		})
	}
}
