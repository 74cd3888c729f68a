// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fleetJudge says what must never happen to a fleet.
type fleetJudge struct {
	world *World
	// limit is how many slots those who run the fleet ask for, and canary whether they ask for one.
	limit  int
	canary bool
	// past are the policies that were, and until when.
	past []pastPolicy
	// held and ran are the Etcds that had a slot at last, and those in which tasks ran that need one.
	held, ran []string
	// started are the tasks that need a slot and have started, and what they rested on then. changes are those that they bring, and resumed is how
	// often each was resumed, by the ledger.
	started map[types.UID]*start
	changes map[types.UID]string
	resumed map[string]int
	// touched are those by which the operator has replaced pods by ones of a template that crashes, by template.
	touched map[string][]*start
}

// start is the start of a task that brings a template to a cluster.
type start struct {
	etcd string
	// free: no canary had to try it. over: it counts no more for others, since a person has resumed its change, or the ledger alone knew of it.
	free, over bool
	// at is when the template reached the cluster, which had begun again so often.
	at       time.Duration
	clusters int
}

func newFleetJudge(w *World, limit int) *fleetJudge {
	return &fleetJudge{world: w, limit: limit, canary: true, started: map[types.UID]*start{}, changes: map[types.UID]string{}, resumed: map[string]int{}, touched: map[string][]*start{}}
}

// pastPolicy is a policy that was in force until a time; nil for none.
type pastPolicy struct {
	policy *v1alpha1.EtcdFleetPolicy
	until  time.Duration
}

// obeyed is for how long an operator may obey a policy that was changed: a task starts a while after it has got its slot.
const obeyed = time.Minute

// lately returns the policies that may be obeyed now.
func (f *fleetJudge) lately() []*v1alpha1.EtcdFleetPolicy {
	all := []*v1alpha1.EtcdFleetPolicy{apiserver.Find[*v1alpha1.EtcdFleetPolicy](f.world.API.Live(), "", policy)}
	for _, p := range f.past {
		if f.world.Now()-p.until < obeyed {
			all = append(all, p.policy)
		}
	}
	return all
}

// most returns in how many Etcds tasks may start: without a policy, in all of these.
func (f *fleetJudge) most() (n int) {
	for _, p := range f.lately() {
		if p == nil {
			return len(f.world.judges)
		}
		n = max(n, p.Spec.MaxConcurrent.IntValue())
	}
	return n
}

// tries reports whether a canary tries each template.
func (f *fleetJudge) tries() bool {
	return !slices.ContainsFunc(f.lately(), func(p *v1alpha1.EtcdFleetPolicy) bool { return p == nil || *p.Spec.Canary.Count == 0 })
}

// beyond reports whether there are more Etcds than there may be, with one that was not there before: what has begun is not stopped by a lower limit.
func (f *fleetJudge) beyond(now []string, before ...string) bool {
	return len(now) > f.most() && slices.ContainsFunc(now, func(etcd string) bool { return !slices.Contains(before, etcd) })
}

// change judges a change at the API server.
func (f *fleetJudge) change(c apiserver.Change) {
	if c.After == nil && c.Kind == "ConfigMap" && c.Key.Name == v1alpha1.FleetConfigMap && !f.isPaused() {
		for _, reached := range f.touched {
			for _, s := range reached {
				s.over = true
			}
		}
	}
	if before, ok := c.Before.(*v1alpha1.EtcdFleetPolicy); ok || c.Kind == "EtcdFleetPolicy" {
		f.past = append(f.past, pastPolicy{before, f.world.Now()})
		if now, ok := c.After.(*v1alpha1.EtcdFleetPolicy); ok && (before == nil || now.Annotations[v1alpha1.AnnotationResumeChange] != before.Annotations[v1alpha1.AnnotationResumeChange]) {
			f.resumes(now.Annotations[v1alpha1.AnnotationResumeChange])
		}
	}
	switch object := c.After.(type) {
	case *corev1.ConfigMap:
		if object.Name == v1alpha1.FleetConfigMap {
			f.ledger(object.Data["ledger"])
		}
	case *v1alpha1.EtcdOperatorTask:
		running := f.running()
		if f.beyond(running, slices.Concat(f.ran, f.held)...) {
			f.world.broke("tasks run in %s, where %d may: %s", strings.Join(running, " and "), f.most(), object.Name)
		}
		f.ran = running
		f.starts(object)
	}
}

// starts judges the start of a task by the policy that there is, or was lately: what it rests on may change while the task runs.
func (f *fleetJudge) starts(t *v1alpha1.EtcdOperatorTask) {
	if limited[t.Spec.Type] && t.Status.State == v1alpha1.TaskStateInProgress && f.started[t.UID] == nil {
		f.started[t.UID] = &start{etcd: t.Spec.OwnerEtcdReference.Name, free: !f.tries()}
	}
}

// resumes has the tasks of a change that a person resumes as it is count no more: others may try it.
func (f *fleetJudge) resumes(token string) {
	for task, s := range f.started {
		change, known := f.changes[task]
		s.over = s.over || known && token == fmt.Sprintf("%s.%d", change, f.resumed[change])
	}
}

// isPaused reports whether the status of the policy says that a change failed.
func (f *fleetJudge) isPaused() bool {
	p := apiserver.Find[*v1alpha1.EtcdFleetPolicy](f.world.API.Live(), "", policy)
	return p != nil && slices.ContainsFunc(p.Status.Changes, func(c v1alpha1.FleetChange) bool { return c.ResumeToken != "" })
}

// ledger judges who holds a slot, at each revision.
func (f *fleetJudge) ledger(text string) {
	var l struct {
		Holders []struct {
			Task, Etcd       types.UID
			EtcdName, Change string
			Ended            time.Time
			Canary, Unasked  bool
		}
		Changes []struct {
			Name    string
			Resumed int
		}
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		f.world.broke("the ledger cannot be read: %v", err)
	}
	for _, c := range l.Changes {
		f.resumed[c.Name] = c.Resumed
	}
	var holders []string
	counted := map[types.UID]bool{}
	for _, h := range l.Holders {
		f.changes[h.Task] = h.Change
		if !h.Unasked && (h.Canary || h.Ended.IsZero()) && !counted[h.Etcd] {
			counted[h.Etcd] = true
			holders = append(holders, h.EtcdName)
		}
	}
	if f.beyond(holders, f.held...) {
		f.world.broke("the ledger has %s as holders, where %d may be", strings.Join(holders, " and "), f.most())
	}
	f.held = holders
}

// running are the Etcds in which tasks run that need a slot.
func (f *fleetJudge) running() (in []string) {
	for _, t := range f.slotted() {
		if etcd := t.Spec.OwnerEtcdReference.Name; !slices.Contains(in, etcd) {
			in = append(in, etcd)
		}
	}
	return in
}

// slotted are the tasks that run and need a slot.
func (f *fleetJudge) slotted() (all []*v1alpha1.EtcdOperatorTask) {
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](f.world.API.Live()) {
		if limited[t.Spec.Type] && t.Status.State == v1alpha1.TaskStateInProgress {
			all = append(all, t)
		}
	}
	return all
}

// by is the start of the task of an Etcd that replaces its pods: maintenance, which replaces none, only if it runs alone.
func (f *fleetJudge) by(etcd string) (s *start) {
	for _, t := range f.slotted() {
		if t.Spec.OwnerEtcdReference.Name == etcd && (s == nil || t.Spec.Type != v1alpha1.OnDemandMaintenance) {
			s = f.started[t.UID]
		}
	}
	return s
}

// limited are the types of tasks that need a slot.
var limited = map[v1alpha1.TaskType]bool{v1alpha1.QuorumAwareRollout: true, v1alpha1.RecreateRollout: true, v1alpha1.OnDemandMaintenance: true}

// removal judges the removal of a pod before it is carried out: one bad template reaches one cluster. What it breaks; empty for nothing.
func (f *fleetJudge) removal(o *operator, j *judge, name string) string {
	p, set, s := apiserver.Find[*corev1.Pod](f.world.API.Live(), Namespace, name), j.set(), f.by(j.name)
	if p == nil || set == nil || s == nil || isBad(p.Annotations) || !isBad(set.Spec.Template.Annotations) {
		return ""
	}
	template := ""
	for key := range set.Spec.Template.Annotations {
		if strings.HasPrefix(key, crashes) {
			template = key
		}
	}
	if slices.Contains(f.touched[template], s) {
		return ""
	}
	s.at, s.clusters = f.world.Now(), len(j.past)
	f.touched[template] = append(f.touched[template], s)
	if s.free || s.over {
		return ""
	}
	for _, first := range f.touched[template] {
		if first.etcd != j.name && !first.free && !first.over && !f.startedOver(first) {
			return fmt.Sprintf("%s removes pod %s, whose template crashes, after it did so in %s", o.name, name, first.etcd)
		}
	}
	return ""
}

// reached reports whether the operator has replaced a pod of an Etcd by one of a template that crashes.
func (f *fleetJudge) reached(etcd, template string) bool {
	return slices.ContainsFunc(f.touched[template], func(s *start) bool { return s.etcd == etcd })
}

// startedOver reports whether an Etcd was hibernated, recovered or restored since a template reached it: that it is well afterwards says nothing of the
// template, nor does what it was before.
func (f *fleetJudge) startedOver(s *start) bool {
	j := f.world.of(s.etcd + "-0")
	return j.hibernated > s.at || len(j.past) > s.clusters
}
