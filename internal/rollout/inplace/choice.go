// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// Updates is what is known of the pods that can be updated in place. The zero value is that of a rollout that replaces every pod.
type Updates struct {
	// Enabled: pods are updated in place where that is possible.
	Enabled bool
	pods    map[types.UID]updatedPod
	// infeasible is why the resize to target is infeasible, since it was on the node of one pod; empty if that is not known. Other pods
	// are replaced at once: one that is resized, reverted and then replaced has been disturbed for nothing.
	infeasible, target string
}

type updatedPod struct {
	Assessment
	// phase is how long the phase of the assessment has lasted, with the same class of the pod.
	phase lasting.Timer[string]
	// risk is how long the member has been AtRisk.
	risk lasting.Timer[bool]
}

// Next returns the updates after one more observation, of which the pods were assessed. As for all timers, a gap that is longer than
// maxGap resets how long something has lasted (ADR 3).
func (s Updates) Next(snapshot *cluster.Snapshot, assessed map[types.UID]Assessment, maxGap time.Duration) Updates {
	next := Updates{Enabled: true, pods: map[types.UID]updatedPod{}, target: snapshot.StatefulSet.UpdateRevision}
	if s.target == next.target {
		next.infeasible = s.infeasible
	}
	for _, o := range snapshot.Ordinals {
		if o.Pod == nil {
			continue
		}
		if a, found := assessed[o.Pod.UID]; found && a.ResourceVersion == o.Pod.ResourceVersion {
			before := s.pods[o.Pod.UID]
			if a.Infeasible {
				next.infeasible = fmt.Sprintf("the same resize failed on %s: %s", o.Name, strings.TrimPrefix(a.Replace, unresizable))
			}
			next.pods[o.Pod.UID] = updatedPod{
				Assessment: a,
				phase:      before.phase.Next(a.Phase+"|"+string(o.Class), snapshot.At, maxGap),
				risk:       before.risk.Next(a.AtRisk, snapshot.At, maxGap),
			}
		}
	}
	return next
}

// Choice is how an outdated pod follows its template. If nothing is set, it is replaced, as every pod is where none is updated
// in place.
type Choice struct {
	// Write is the next write; nil if there is none.
	Write *Write
	// Wait is why nothing is done yet; empty if something is.
	Wait string
	// Replace is why the pod is replaced; empty if it is not, or if every pod is.
	Replace string
	// Begun: the pod is on its way.
	Begun bool
	// Disrupts: a write that is left does.
	Disrupts bool
}

// InPlace reports whether the pod is not replaced.
func (c Choice) InPlace() bool { return c.Write != nil || c.Wait != "" }

// IsOnItsWay reports whether the pod is between two revisions, and nothing is left to do that disrupts its member. One that has
// only been marked before that waits for its turn like others: leadership may have moved to it.
func (c Choice) IsOnItsWay() bool {
	return c.InPlace() && c.Begun && (!c.Disrupts || c.Wait != "")
}

// Of says how the outdated pod of an ordinal follows its template.
func (s Updates) Of(o *cluster.Ordinal, now time.Time) Choice {
	if !s.Enabled {
		return Choice{}
	}
	p, known := s.pods[o.Pod.UID]
	if !known {
		return Choice{Wait: fmt.Sprintf("%s changed while it was compared with its template, and is compared again", o.Name), Begun: o.Pod.Updating}
	}
	c := Choice{Begun: o.Pod.Updating, Disrupts: slices.ContainsFunc(p.Writes, func(w Write) bool { return w.Disrupts })}
	participates := o.Class == v1alpha1.ClassParticipating
	switch {
	case p.GiveUp != nil && lasting.Since(p.phase.Since(), now, p.GiveUpAfter):
		c.Write, c.Disrupts = p.GiveUp, false
	case p.Replace != "" && participates && len(p.Writes) > 0:
		// What cannot be carried out is reverted, so that it is not carried out at some other time.
		c.Write, c.Disrupts = &p.Writes[0], false
	case p.Replace != "":
		c.Replace, c.Begun = p.Replace, false
	case s.infeasible != "" && !c.Begun && slices.ContainsFunc(p.Writes, func(w Write) bool { return w.Kind == ResizePod }):
		c.Replace, c.Disrupts = s.infeasible, false
	case p.Pending != "":
		c.Wait = fmt.Sprintf("%s is being updated in place: %s", o.Name, p.Pending)
		if p.GiveUp != nil {
			c.Wait += fmt.Sprintf("; after %s the update is reverted and the pod is replaced", p.GiveUpAfter)
		}
	case !participates && o.Pod.Updating && p.keepsPod():
		c.Wait = fmt.Sprintf("%s has been updated in place and does not participate", o.Name)
	case !participates:
		c.Replace, c.Begun = "it does not participate", false
	case p.Settle > 0 && !lasting.Since(p.phase.Since(), now, p.Settle):
		c.Wait = fmt.Sprintf("%s was updated in place and must participate for %s without a container restart", o.Name, p.Settle)
	default:
		c.Write = &p.Writes[0]
	}
	return c
}

// AtRisk reports whether the member of an ordinal serves and may yet stop, because of what was written to its pod.
func (s Updates) AtRisk(o *cluster.Ordinal) bool {
	return o.Pod != nil && o.Serving && s.pods[o.Pod.UID].AtRisk
}

// riskWindow is how long a member that may yet stop is waited for before one that is running and does not seem to serve.
const riskWindow = 30 * time.Second

// AtRiskLately is as AtRisk, but for half a minute only, whether or not the member participates: what waits for it may be what
// the cluster needs.
func (s Updates) AtRiskLately(o *cluster.Ordinal, now time.Time) bool {
	return s.AtRisk(o) && !lasting.Since(s.pods[o.Pod.UID].risk.Since(), now, riskWindow)
}

// Stage is the place of an outdated pod in the order, before all else: what does not participate and is replaced, what is on its
// way, what disturbs no member, and the rest. Where every pod is replaced, one that was on its way goes first: it may be restarted at
// any moment.
func (s Updates) Stage(o *cluster.Ordinal, now time.Time) int {
	switch c := s.Of(o, now); {
	case !c.InPlace() && o.Class != v1alpha1.ClassParticipating:
		return 0
	case c.IsOnItsWay() || !s.Enabled && o.Pod.Updating:
		return 1
	case c.Write != nil && !c.Disrupts:
		return 2
	}
	return 3
}

// Foresee carries out the next write of a pod, in a plan. After the last one, the pod is as the template of the StatefulSet says.
func (s Updates) Foresee(o *cluster.Ordinal, set cluster.StatefulSet, now time.Time) Updates {
	next := s
	next.pods = maps.Clone(s.pods)
	p := next.pods[o.Pod.UID]
	c := s.Of(o, now)
	if c.Write == nil {
		// What is waited for comes to pass.
		p.Pending, p.Settle, p.GiveUp, p.AtRisk = "", 0, nil, false
		next.pods[o.Pod.UID] = p
		return next
	}
	o.Pod.ResourceVersion += "+"
	p.ResourceVersion, p.Pending, p.GiveUp = o.Pod.ResourceVersion, "", nil
	if len(p.Writes) > 0 {
		p.Writes = p.Writes[1:]
	}
	o.Pod.Updating = !c.Write.Final
	if c.Write.Final {
		o.Pod.Revision, o.Versions.Etcd = set.UpdateRevision, cmp.Or(set.EtcdVersion, o.Versions.Etcd)
	}
	next.pods[o.Pod.UID] = p
	return next
}
