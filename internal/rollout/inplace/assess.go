// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package inplace decides how a pod of a StatefulSet can follow a new pod template without being replaced (ADR 30). It is pure.
//
// The difference between the ControllerRevision of the pod and the target decides, field by field, by an allow-list: resources
// of containers, images of known containers, labels and annotations. Whatever is not on the list takes a new pod, and so does a
// field whose live value is neither that of the pod's revision nor one that an earlier write of ours has set: something else
// wrote it.
//
// Before its first write to a spec, a pod gets a Mark. The last write removes it and sets the pod's revision.
package inplace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Assessment is how a pod can follow its target.
type Assessment struct {
	// ResourceVersion of the pod that it is about.
	ResourceVersion string
	// Replace is why the pod has to be replaced; empty if it can be updated in place.
	Replace string
	// Infeasible: Replace is that the node of the pod can never resize it to the resources of its target.
	Infeasible bool
	// Writes that are left, in order. Before a pod is replaced, there may be one: that which reverts a resize. Otherwise the
	// last one is final.
	Writes []Write
	// Pending is what the kubelet has yet to do before the first write; empty if there is nothing.
	Pending string
	// Settle is how long the member has to have participated, without a restart, before the first write.
	Settle time.Duration
	// GiveUp records that the update is impossible: at once, or once Pending has lasted for as long as GiveUpAfter. It is nil if
	// there is nothing to give up.
	GiveUp      *Write
	GiveUpAfter time.Duration
	// Restarted: a write that was carried out restarts etcd.
	Restarted bool
	// AtRisk: a write was carried out after which the member may yet stop serving. The kubelet has not restarted etcd, or lowered
	// resources have not settled.
	AtRisk bool
	// Phase names what is waited for. How long it has lasted is counted while it stays the same.
	Phase string
}

// keepsPod reports whether a new pod would be no better than this one, or etcd has just been restarted: nothing is left to write
// but the revision, or the pod has begun to be what a new one would be.
func (a Assessment) keepsPod() bool { return a.Restarted || len(a.Writes) > 0 && a.Writes[0].Final }

// Revisions are the names of the ControllerRevisions that the assessment of a pod rests on.
func Revisions(pod *corev1.Pod, target string) []string {
	names := []string{pod.Labels[appsv1.StatefulSetRevisionLabel], target}
	if m := cluster.MarkOf(pod); m != nil {
		names = append(names, m.To(target).Earlier...)
	}
	return names[:min(len(names), maxEarlier+2)]
}

// maxEarlier bounds a mark.
const maxEarlier = 10

// Input is a pod that does not follow its target yet.
type Input struct {
	Pod *corev1.Pod
	// TargetName is the revision to bring it to.
	TargetName string
	// Templates by the names of their revisions. One that is missing has no entry.
	Templates map[string]*Template
	// Refused is why the API server has refused a write; empty if it has not.
	Refused string
}

// maxReason bounds what is said of a pod, in bytes: others may write marks and values of any length.
const maxReason = 1024

// Assess says how a pod can follow its target.
func Assess(in Input) Assessment {
	a := assess(in)
	a.Replace, a.Pending = sanitize.Text(a.Replace, maxReason), sanitize.Text(a.Pending, maxReason)
	return a
}

func assess(in Input) Assessment {
	w := work{Input: in, mark: cluster.MarkOf(in.Pod), source: in.Pod.Labels[appsv1.StatefulSetRevisionLabel]}
	a := Assessment{ResourceVersion: in.Pod.ResourceVersion, AtRisk: w.restartsSoon()}
	if w.mark != nil && w.mark.Failed != "" && w.mark.Target == in.TargetName {
		return w.revert(a)
	}
	if a.Replace = w.prepare(); a.Replace != "" {
		return a
	}
	a.Writes = w.writes()
	w.wait(&a)
	if w.mark != nil {
		_, restarts := w.mark.Containers[v1alpha1.ContainerEtcd]
		a.Restarted = restarts && !w.isLeft(v1alpha1.ContainerEtcd)
	}
	return a
}

// work is an assessment in progress.
type work struct {
	Input
	mark   *cluster.Mark
	source string
	// leaves that differ between the revisions concerned, and their values.
	leaves           []leaf
	live, from, goal values
	// halfway are the values of the targets that the pod was on its way to before.
	halfway []values
}

// prepare returns why the pod has to be replaced; empty if it can be updated in place.
func (w *work) prepare() string {
	if w.Refused != "" {
		return "the API server refused to update it in place: " + w.Refused
	}
	from, to := w.Templates[w.source], w.Templates[w.TargetName]
	switch {
	case from == nil:
		return fmt.Sprintf("its ControllerRevision %s is missing", cmp.Or(w.source, "(none)"))
	case to == nil:
		return fmt.Sprintf("ControllerRevision %s is missing", w.TargetName)
	case w.mark != nil && w.mark.Source != w.source:
		return fmt.Sprintf("an update in place from revision %s has begun, and the pod is labeled with revision %s", w.mark.Source, w.source)
	}
	if path := unlike(from, to); path != "" {
		return path + " cannot be changed in place"
	}
	w.from, w.goal = from.leaves(), to.leaves()
	w.live = leavesOf(w.Pod.Labels, w.Pod.Annotations, &w.Pod.Spec)
	if w.mark != nil {
		earlier := w.mark.To(w.TargetName).Earlier
		if len(earlier) > maxEarlier {
			return fmt.Sprintf("its template has changed more than %d times while it was being updated", maxEarlier)
		}
		for _, name := range earlier {
			if w.Templates[name] == nil {
				return fmt.Sprintf("an update in place to revision %s has begun, and its ControllerRevision is missing", name)
			}
			w.halfway = append(w.halfway, w.Templates[name].leaves())
		}
	}
	w.leaves = changed(w.from, append(slices.Clone(w.halfway), w.goal)...)
	for _, l := range w.leaves {
		if why := w.obstacle(l); why != "" {
			return why
		}
	}
	return derived(&w.Pod.Spec, w.leaves)
}

func (t *Template) leaves() values { return leavesOf(t.Labels, t.Annotations, &t.Spec) }

// obstacle returns why a leaf cannot be changed in place; empty if it can.
func (w *work) obstacle(l leaf) string {
	if l.kind == PatchMetadata {
		if why := unpatchable(l); why != "" {
			return fmt.Sprintf("%s %s", l, why)
		}
	}
	if l.kind == ResizePod && w.Pod.Spec.Resources != nil {
		return "it has pod-level resources"
	}
	_, has := w.live[l]
	if _, stays := w.goal[l]; l.kind == ResizePod && has && !stays {
		return fmt.Sprintf("a resize cannot remove %s", l)
	}
	if l.kind == PatchMetadata && w.mark != nil && w.mark.Target == w.TargetName && !w.live.same(w.goal, l) {
		return fmt.Sprintf("something else has changed %s since this update set it", l)
	}
	isLive := func(v values) bool { return w.live.same(v, l) }
	if isLive(w.from) || w.mark != nil && (isLive(w.goal) || slices.ContainsFunc(w.halfway, isLive)) {
		return ""
	}
	return fmt.Sprintf("something else has changed %s in the pod (now %s)", l, cmp.Or(w.live[l], "none"))
}

// revert is the way out of an update that turned out to be impossible: the resources that the pod had, and then a new pod.
func (w *work) revert(a Assessment) Assessment {
	a.Replace, a.Infeasible = w.mark.Failed, strings.HasPrefix(w.mark.Failed, unresizable+infeasible)
	from, to := w.Templates[w.source], w.Templates[w.TargetName]
	if from == nil || to == nil || w.Refused != "" {
		return a
	}
	w.from, w.goal, w.live = from.leaves(), to.leaves(), leavesOf(w.Pod.Labels, w.Pod.Annotations, &w.Pod.Spec)
	var back []leaf
	for _, l := range changed(w.from, w.goal) {
		// A value that something else has set since stays.
		if _, had := w.from[l]; l.kind == ResizePod && had && w.live.same(w.goal, l) {
			back = append(back, l)
		}
	}
	if len(back) > 0 {
		a.Writes = []Write{{Kind: ResizePod, Patch: resourcesPatch(back, w.from), resources: w.live.with(back, w.from), What: "revert " + list(back) + " because the update is impossible"}}
	}
	return a
}
