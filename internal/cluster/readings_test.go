// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// The report that etcd is not running counts while nothing says that the node is lost.
func TestMayRun(t *testing.T) {
	const missing, terminating, dead, starting, unready = v1alpha1.ClassMissing, v1alpha1.ClassTerminating, v1alpha1.ClassDead, v1alpha1.ClassStarting, v1alpha1.ClassUnready
	lost := func(p *Pod) { p.Node = Node{Name: "n", Trouble: "not ready"} }
	marked := func(p *Pod) { p.NodeLost = true }
	for name, c := range map[string]struct {
		class  v1alpha1.PodClass
		change func(*Pod)
		may    bool
		known  v1alpha1.PodClass
		says   string
	}{
		"running":                        {unready, nil, true, unready, "Unready (OOMKilled)"},
		"dead":                           {dead, nil, false, dead, "Dead (OOMKilled)"},
		"dead on a lost node":            {dead, lost, true, unready, "Dead (OOMKilled; unknown now: its node n is not ready)"},
		"dead in a marked pod":           {dead, marked, true, unready, "Dead (OOMKilled; unknown now: its node is marked as lost)"},
		"ended before the node was lost": {dead, func(p *Pod) { lost(p); marked(p); p.Ended = true }, false, dead, "Dead (OOMKilled)"},
		"starting":                       {starting, nil, false, starting, "Starting (OOMKilled)"},
		"starting on a lost node":        {starting, lost, true, unready, "Starting (OOMKilled; unknown now: its node n is not ready)"},
		"terminating, and running":       {terminating, func(p *Pod) { p.EtcdStarted = time.Unix(1, 0) }, true, terminating, "Terminating (OOMKilled)"},
		"terminating, and stopped":       {terminating, nil, false, terminating, "Terminating (OOMKilled)"},
		"terminating on a lost node":     {terminating, lost, true, terminating, "Terminating (OOMKilled)"},
		"terminating, ended before that": {terminating, func(p *Pod) { lost(p); p.Ended = true }, false, terminating, "Terminating (OOMKilled)"},
		"there is no pod":                {missing, nil, false, missing, "Missing"},
	} {
		o := Ordinal{Class: c.class}
		if c.class != missing {
			o.Pod = &Pod{Trouble: "OOMKilled"}
		}
		if c.change != nil {
			c.change(o.Pod)
		}
		if o.MayRun() != c.may || o.KnownClass() != c.known || o.Describe() != c.says {
			t.Errorf("%s: may run: %t; %s; %s", name, o.MayRun(), o.KnownClass(), o.Describe())
		}
	}
}

// Members on lost nodes may be a quorum that the operator cannot reach, whatever was reported of them last.
func TestUnreachableOnLostNodes(t *testing.T) {
	lost := &Pod{Node: Node{Name: "n", Trouble: "not ready"}}
	for _, class := range []v1alpha1.PodClass{v1alpha1.ClassTerminating, v1alpha1.ClassDead, v1alpha1.ClassStarting, v1alpha1.ClassUnready} {
		s := &Snapshot{Ordinals: []Ordinal{{Name: "m-0", Answers: true}, {Name: "m-1", Class: class, Pod: lost}, {Name: "m-2", Class: v1alpha1.ClassUnready, Pod: &Pod{}}}}
		if names, quorate := s.Unreachable(); !quorate || !slices.Equal(names, []string{"m-1"}) {
			t.Errorf("%s: %v, %t", class, names, quorate)
		}
	}
}

// The only voter of a recovered cluster serves where the operator cannot reach it, and the others wait for it.
func TestALoneVoterBeyondReachIsAQuorum(t *testing.T) {
	waits := func() Ordinal {
		return Ordinal{Class: v1alpha1.ClassDead, Pod: &Pod{Refusal: &Refusal{Reason: v1alpha1.ReasonRecovering}}}
	}
	for _, probed := range []bool{false, true} {
		serves := Ordinal{Name: "m-0", Class: v1alpha1.ClassUnready, Pod: &Pod{Ready: true, Probed: probed, EtcdStarted: time.Unix(1, 0)}}
		s := &Snapshot{Ordinals: []Ordinal{serves, waits(), waits()}}
		if names, quorate := s.Unreachable(); quorate != probed || !slices.Equal(names, []string{"m-0"}) {
			t.Errorf("probed %v: %v, %v", probed, names, quorate)
		}
	}
}
