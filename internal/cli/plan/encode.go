// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
)

// document is the plan that programs read.
type document struct {
	Etcd           string `json:"etcd"`
	Namespace      string `json:"namespace"`
	Task           string `json:"task,omitempty"`
	TargetRevision string `json:"targetRevision"`
	// EtcdReachable: a member answered; otherwise roles come from leases.
	EtcdReachable bool     `json:"etcdReachable"`
	Members       []member `json:"members"`
	Voters        int      `json:"voters"`
	ServingVoters int      `json:"servingVoters"`
	Quorum        int      `json:"quorum"`
	// WaitsFor is what the rollout waits for, or may wait for, before it begins or continues, beside guards.
	WaitsFor []string `json:"waitsFor,omitempty"`
	HeldBy   []hold   `json:"heldBy"`
	Steps    []step   `json:"steps"`
	// End is how the plan ends: Finished, Superseded, or Wait if nothing can be predicted after the last step.
	End string `json:"end"`
}

type member struct {
	Pod      string `json:"pod"`
	Class    string `json:"class"`
	Role     string `json:"role"`
	Revision string `json:"revision,omitempty"`
	// GracePeriodSeconds is set if a pod is deleted with another grace period than its own.
	GracePeriodSeconds int64 `json:"gracePeriodSeconds,omitempty"`
}

type hold struct {
	Guard   string `json:"guard"`
	Pod     string `json:"pod,omitempty"`
	Message string `json:"message"`
}

type step struct {
	// Action is Wait while a guard blocks.
	Action string   `json:"action"`
	Pods   []member `json:"pods,omitempty"`
	Reason string   `json:"reason,omitempty"`
	HeldBy *hold    `json:"heldBy,omitempty"`
	// QuorumMeanwhile is set for steps that remove pods.
	QuorumMeanwhile *bool `json:"quorumMeanwhile,omitempty"`
}

func (p *result) document() document {
	now := p.now()
	d := document{
		Etcd: p.etcd.Name, Namespace: p.etcd.Namespace, TargetRevision: now.StatefulSet.UpdateRevision, EtcdReachable: p.unreachable == "",
		Voters: len(now.Cluster.Voters), ServingVoters: now.ServingVoters(), Quorum: now.Quorum(), WaitsFor: p.waiting, HeldBy: []hold{}, Steps: []step{}, End: string(p.End),
	}
	if p.task != nil {
		d.Task = p.task.Name
	}
	for _, o := range now.Ordinals {
		d.Members = append(d.Members, memberOf(o))
	}
	for _, h := range p.holding {
		d.HeldBy = append(d.HeldBy, holdOf(h))
	}
	for _, e := range p.Entries {
		if h := e.Hold(); h != nil {
			d.Steps = append(d.Steps, step{Action: "Wait", HeldBy: new(holdOf(*h))})
			continue
		}
		s := step{Action: string(e.Step.Action), Reason: e.Step.Reason}
		for _, i := range podsOf(e.Step) {
			m := memberOf(e.Before.Ordinals[i])
			m.GracePeriodSeconds = int64(e.Step.Grace[i].Seconds())
			s.Pods = append(s.Pods, m)
		}
		if e.Meanwhile != nil {
			kept := e.Meanwhile.HasQuorum()
			s.QuorumMeanwhile = &kept
		}
		d.Steps = append(d.Steps, s)
	}
	return d
}

// podsOf returns the ordinals of the pods that a step changes: none for a snapshot.
func podsOf(s *rollout.Step) []int {
	if s.Action == rollout.TakeSnapshot {
		return nil
	}
	return s.Ordinals
}

func holdOf(h rollout.Hold) hold { return hold{string(h.Guard), h.Pod, h.Message} }

func memberOf(o cluster.Ordinal) member {
	m := member{Pod: o.Name, Class: string(o.Class), Role: string(o.Role)}
	if o.Pod != nil {
		m.Revision = o.Pod.Revision
	}
	return m
}
