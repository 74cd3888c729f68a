// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package strategy

import (
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// missing is a cluster of three, one of whose pods does not exist.
func missing(ordinal int) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	clustertest.Away(s, ordinal, v1alpha1.ClassMissing, "")
	return s
}

// unready is a cluster of three, one of whose pods does not participate.
func unready(ordinal int, pod types.UID) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	clustertest.Away(s, ordinal, v1alpha1.ClassUnready, "")
	s.Ordinals[ordinal].Pod.UID = pod
	return s
}

// terminating is the same pod, once it is being deleted.
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

func TestWhenTheStatefulSetControllerMayTakeOver(t *testing.T) {
	// spell is what is seen every five seconds for a while, or once after a while.
	type spell struct {
		seen  *cluster.Snapshot
		lasts time.Duration
		once  bool
	}
	lasts := func(s *cluster.Snapshot, d time.Duration) spell { return spell{s, d, false} }
	after := func(d time.Duration, s *cluster.Snapshot) spell { return spell{s, d, true} }
	const deadline = progressDeadline
	for name, tc := range map[string]struct {
		spells []spell
		want   bool
	}{
		"every member participates":              {[]spell{after(0, clustertest.Healthy(3))}, true},
		"no replicas":                            {[]spell{after(0, clustertest.Healthy(0))}, true},
		"one is away":                            {[]spell{lasts(unready(1, "a"), deadline-5*time.Second)}, false},
		"one is away for long":                   {[]spell{lasts(unready(1, "a"), deadline)}, true},
		"one is away for long, and then goes":    {[]spell{lasts(unready(1, "a"), deadline), after(5*time.Second, terminating(1, "a"))}, true},
		"its successor does not start either":    {[]spell{lasts(unready(1, "a"), deadline), after(5*time.Second, unready(1, "b"))}, false},
		"its pod is gone":                        {[]spell{lasts(unready(1, "a"), deadline), after(5*time.Second, missing(1))}, false},
		"a pod is missing for long":              {[]spell{lasts(missing(1), deadline)}, true},
		"a pod that was missing is back":         {[]spell{lasts(missing(1), deadline), after(5*time.Second, unready(1, "a"))}, false},
		"it participated for a moment":           {[]spell{lasts(unready(1, "a"), deadline), after(5*time.Second, clustertest.Healthy(3)), after(5*time.Second, unready(1, "a"))}, false},
		"one after the other is away":            {[]spell{lasts(unready(2, "a"), deadline/2), lasts(unready(1, "b"), deadline/2), lasts(unready(0, "c"), deadline/2)}, false},
		"one is away for long, another for less": {[]spell{lasts(unready(2, "a"), 2*deadline), after(5*time.Second, both(unready(2, "a"), unready(1, "b")))}, false},
		"nobody looked for a while":              {[]spell{lasts(unready(1, "a"), deadline-5*time.Second), after(11*time.Second, unready(1, "a"))}, false},
		"nobody looked for long":                 {[]spell{lasts(unready(1, "a"), 5*time.Second), after(deadline, unready(1, "a"))}, false},
		"somebody looked just often enough":      {[]spell{lasts(unready(1, "a"), deadline-5*time.Second), after(10*time.Second, unready(1, "a"))}, true},
		"a pod is still to go":                   {[]spell{lasts(left("etcd-main-1"), deadline-5*time.Second)}, false},
		"a pod does not go":                      {[]spell{lasts(left("etcd-main-1"), deadline)}, true},
		"a pod does not go, and another has to":  {[]spell{lasts(left("etcd-main-2"), deadline), after(5*time.Second, left("etcd-main-1", "etcd-main-2"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			now, a := noon, absences{}
			see := func(s *cluster.Snapshot) { s.At = now; a = a.next(s) }
			for _, s := range tc.spells {
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
