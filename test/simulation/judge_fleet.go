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
	limit int
	// touched are the Etcds whose pods the operator has replaced by ones of a template that crashes, by template.
	touched map[string][]string
	// lost are those that were being tried when the ledger was deleted: what the ledger alone knew, and no status yet, is not known any more.
	lost map[string]bool
}

func newFleetJudge(w *World, limit int) *fleetJudge {
	return &fleetJudge{world: w, limit: limit, touched: map[string][]string{}, lost: map[string]bool{}}
}

// change judges a change at the API server.
func (f *fleetJudge) change(c apiserver.Change) {
	if c.After == nil && c.Kind == "ConfigMap" && c.Key.Name == v1alpha1.FleetConfigMap && !f.isPaused() {
		for template := range f.touched {
			f.lost[template] = true
		}
	}
	switch object := c.After.(type) {
	case *corev1.ConfigMap:
		if object.Name == v1alpha1.FleetConfigMap {
			f.ledger(object.Data["ledger"])
		}
	case *v1alpha1.EtcdOperatorTask:
		if running := f.running(); len(running) > f.limit {
			f.world.broke("tasks run in %s, where %d may: %s", strings.Join(running, " and "), f.limit, object.Name)
		}
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
	if len(holders) > f.limit {
		f.world.broke("the ledger has %s as holders, where %d may be", strings.Join(holders, " and "), f.limit)
	}
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
	if first := f.touched[template][0]; first != j.name {
		if f.lost[template] {
			delete(f.lost, template)
			f.touched[template] = append([]string{j.name}, f.touched[template]...)
			return ""
		}
		return fmt.Sprintf("%s removes pod %s, whose template crashes, after it did so in %s", o.name, name, first)
	}
	return ""
}
