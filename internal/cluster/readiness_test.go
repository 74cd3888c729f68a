// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// A probe vouches for a voter only if it proves that the voter can read through the quorum now.
func TestVouch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pod)
		serves bool
	}{
		"its probe passes":                   {func(*Pod) {}, true},
		"its probe fails":                    {func(p *Pod) { p.Ready = false }, false},
		"it has no probe":                    {func(p *Pod) { p.Probed = false }, false},
		"its probe passes for learners, too": {func(p *Pod) { p.EtcdVersion = "3.5.18" }, false},
		"its version is unknown":             {func(p *Pod) { p.EtcdVersion = "" }, false},
		"its node is lost":                   {func(p *Pod) { p.Node.Trouble = "not ready" }, false},
		"it is about to be evicted":          {func(p *Pod) { p.Disrupted = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &Pod{Ready: true, Probed: true, EtcdVersion: "3.6.8"}
			c.change(pod)
			s := &Snapshot{Ordinals: []Ordinal{{Name: "m-0", Class: v1alpha1.ClassUnready, Pod: pod}, {Name: "m-1", Pod: pod}}}
			s.Cluster.Voters = []Voter{{Ordinal: 0}, {Ordinal: 1}, {Ordinal: -1}}
			v := s.Vouch([]int{0})
			if v.Cluster.Voters[0].Serving != c.serves {
				t.Errorf("serving: %t", v.Cluster.Voters[0].Serving)
			}
			if v.Cluster.Voters[1].Serving || v.Cluster.Voters[2].Serving || s.Cluster.Voters[0].Serving {
				t.Error("another voter serves, or the original has changed")
			}
		})
	}
}
