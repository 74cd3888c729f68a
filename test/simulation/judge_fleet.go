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
	// free are the templates that clusters tried while the policy had no canary, and begun is when a template that crashes reached the first cluster.
	free  map[string]bool
	begun map[string]begun
	// touched are the Etcds whose pods the operator has replaced by ones of a template that crashes, by template.
	touched map[string][]string
	// lost are those that were being tried when the ledger was deleted: what the ledger alone knew, and no status yet, is not known any more.
	lost map[string]bool
}

// begun is when a template reached a cluster, which had begun again so often.
type begun struct {
	at       time.Duration
	clusters int
}

func newFleetJudge(w *World, limit int) *fleetJudge {
	return &fleetJudge{world: w, limit: limit, canary: true, touched: map[string][]string{}, lost: map[string]bool{}, free: map[string]bool{}, begun: map[string]begun{}}
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
		for template := range f.touched {
			f.lost[template] = true
		}
	}
	if before, ok := c.Before.(*v1alpha1.EtcdFleetPolicy); ok || c.Kind == "EtcdFleetPolicy" {
		f.past = append(f.past, pastPolicy{before, f.world.Now()})
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
			Etcd            types.UID
			EtcdName        string
			Ended           time.Time
			Canary, Unasked bool
		}
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		f.world.broke("the ledger cannot be read: %v", err)
	}
	var holders []string
	counted := map[types.UID]bool{}
	for _, h := range l.Holders {
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
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](f.world.API.Live()) {
		etcd := t.Spec.OwnerEtcdReference.Name
		if limited[t.Spec.Type] && t.Status.State == v1alpha1.TaskStateInProgress && !slices.Contains(in, etcd) {
			in = append(in, etcd)
		}
	}
	return in
}

// limited are the types of tasks that need a slot.
var limited = map[v1alpha1.TaskType]bool{v1alpha1.QuorumAwareRollout: true, v1alpha1.RecreateRollout: true, v1alpha1.OnDemandMaintenance: true}

// removal judges the removal of a pod before it is carried out: one bad template reaches one cluster. What it breaks; empty for nothing.
func (f *fleetJudge) removal(o *operator, j *judge, name string) string {
	p, set := apiserver.Find[*corev1.Pod](f.world.API.Live(), Namespace, name), j.set()
	if p == nil || set == nil || isBad(p.Annotations) || !isBad(set.Spec.Template.Annotations) || !slices.Contains(f.running(), j.name) {
		return ""
	}
	template := ""
	for key := range set.Spec.Template.Annotations {
		if strings.HasPrefix(key, crashes) {
			template = key
		}
	}
	if !slices.Contains(f.touched[template], j.name) {
		f.touched[template] = append(f.touched[template], j.name)
	}
	if f.touched[template][0] == j.name {
		f.begun[template] = begun{f.world.Now(), len(j.past)}
	}
	f.free[template] = f.free[template] || !f.tries()
	if first := f.touched[template][0]; first != j.name && !f.free[template] && !f.startedOver(first, f.begun[template]) {
		if f.lost[template] {
			delete(f.lost, template)
			f.touched[template] = append([]string{j.name}, f.touched[template]...)
			return ""
		}
		return fmt.Sprintf("%s removes pod %s, whose template crashes, after it did so in %s", o.name, name, first)
	}
	return ""
}

// startedOver reports whether an Etcd was hibernated, recovered or restored since a template reached it: that it is well afterwards says nothing of the
// template, nor does what it was before.
func (f *fleetJudge) startedOver(etcd string, since begun) bool {
	j := f.world.of(etcd + "-0")
	return j.hibernated > since.at || len(j.past) > since.clusters
}
