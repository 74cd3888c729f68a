// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of write to a pod.
type Kind string

// The kinds of writes.
const (
	PatchMetadata   Kind = "PatchMetadata"
	ResizePod       Kind = "ResizePod"
	UpdateContainer Kind = "UpdateContainer"
)

// IsWrite reports whether an operation in the status of a rollout is a write to a pod.
func IsWrite(operation string) bool {
	k := Kind(operation)
	return k == PatchMetadata || k == ResizePod || k == UpdateContainer
}

// Describe says what an operation in the status of a rollout does to a pod.
func Describe(operation string) string {
	if IsWrite(operation) {
		return "update"
	}
	return "deletion"
}

// Write is one write to a pod.
type Write struct {
	Kind Kind
	// Disrupts: a member may serve less well while it is carried out, or not at all.
	Disrupts bool
	// Final: it sets the revision of the pod, and removes the mark.
	Final bool
	// What changes, for people.
	What string
	// Patch is a strategic merge patch, without preconditions. A resize is one of the subresource.
	Patch map[string]any
	// resources of the pod once it is resized.
	resources values
}

// Unasked returns what a pod that was resized, or would be, has and was not asked for; empty if there is nothing. The API server
// gives every container that has none the default limits of a LimitRange, also long after the pod was created.
func (w Write) Unasked(resized *corev1.Pod) string {
	if w.Kind != ResizePod {
		return ""
	}
	for _, l := range changed(w.resources, leavesOf(nil, nil, &resized.Spec)) {
		if l.kind == ResizePod {
			return l.String()
		}
	}
	return ""
}

// left are the leaves of a kind that do not have their value yet.
func (w *work) left(kind Kind) []leaf {
	return slices.DeleteFunc(slices.Clone(w.leaves), func(l leaf) bool { return l.kind != kind || w.live.same(w.goal, l) })
}

// writes returns what is left to write, in order: metadata and the mark, resources, the image of the agent, that of etcd, and
// at the end the revision.
func (w *work) writes() []Write {
	metadata, resources, images := w.left(PatchMetadata), w.left(ResizePod), w.left(UpdateContainer)
	if w.mark == nil && len(resources)+len(images) == 0 {
		return []Write{w.final(metadata)}
	}
	var all []Write
	if mark := w.nextMark(resources, images); w.mark == nil || len(metadata) > 0 || mark.String() != w.mark.String() {
		all = append(all, w.begin(mark, metadata))
	}
	if len(resources) > 0 {
		all = append(all, w.resize(resources))
	}
	for _, etcd := range []bool{false, true} {
		of := slices.DeleteFunc(slices.Clone(images), func(l leaf) bool { return etcd != (l.container == v1alpha1.ContainerEtcd) })
		if len(of) > 0 {
			all = append(all, w.update(of, etcd))
		}
	}
	return append(all, w.final(nil))
}

// nextMark is the mark that the pod needs before the writes that are left.
func (w *work) nextMark(resources, images []leaf) cluster.Mark {
	m := cluster.Mark{UID: w.Pod.UID, Source: w.source, Target: w.TargetName}
	if w.mark != nil {
		m = w.mark.To(w.TargetName)
	}
	for _, l := range slices.Concat(resources, images) {
		if !l.init && w.restarts(l) {
			m.Restart(l.container, containerID(w.Pod, l.container))
		}
	}
	return m
}

// restarts reports whether the kubelet restarts the container of a leaf when that changes.
func (w *work) restarts(l leaf) bool {
	if l.kind != ResizePod {
		return l.kind == UpdateContainer
	}
	for _, c := range w.Pod.Spec.Containers {
		for _, p := range c.ResizePolicy {
			if c.Name == l.container && string(p.ResourceName) == l.key && p.RestartPolicy == corev1.RestartContainer {
				return true
			}
		}
	}
	return false
}

func (w *work) begin(mark cluster.Mark, metadata []leaf) Write {
	patch := metadataPatch(metadata, w.goal)
	set(patch, mark.String(), "metadata", "annotations", v1alpha1.AnnotationInPlaceUpdate)
	what := "mark the pod as being updated"
	if len(metadata) > 0 {
		what += " and set " + list(metadata)
	}
	return Write{Kind: PatchMetadata, What: what, Patch: patch}
}

// final sets the revision, last. Nothing but metadata is left then.
func (w *work) final(metadata []leaf) Write {
	patch := metadataPatch(metadata, w.goal)
	set(patch, w.TargetName, "metadata", "labels", appsv1.StatefulSetRevisionLabel)
	what := "set its revision"
	if len(metadata) > 0 {
		what = "set " + join(append(names(metadata), "its revision"))
	}
	if w.mark != nil {
		what += w.outcome()
		set(patch, nil, "metadata", "annotations", v1alpha1.AnnotationInPlaceUpdate)
	}
	return Write{Kind: PatchMetadata, Final: true, What: what, Patch: patch}
}

// outcome says what an update has changed, as the end of a sentence.
func (w *work) outcome() string {
	done := slices.DeleteFunc(slices.Clone(w.leaves), func(l leaf) bool { return w.goal.same(w.from, l) })
	switch len(done) {
	case 0:
		return ""
	case 1:
		return ", now that " + list(done) + " has changed"
	}
	return ", now that " + list(done) + " have changed"
}

func (w *work) resize(leaves []leaf) Write {
	write := Write{Kind: ResizePod, Patch: resourcesPatch(leaves, w.goal), resources: w.live.with(leaves, w.goal)}
	var say []string
	for _, l := range leaves {
		write.Disrupts = write.Disrupts || w.goal.lowers(w.live, l) || l.container == v1alpha1.ContainerEtcd && w.restarts(l)
		say = append(say, fmt.Sprintf("%s from %s to %s", l, cmp.Or(w.live[l], "none"), w.goal[l]))
	}
	write.What = "change " + strings.Join(say, ", ")
	return write
}

func (w *work) update(leaves []leaf, etcd bool) Write {
	var say []string
	lists := map[string][]any{}
	for _, l := range leaves {
		field := "containers"
		if l.init {
			field = "initContainers"
		}
		lists[field] = append(lists[field], map[string]any{"name": l.container, "image": w.goal[l]})
		say = append(say, fmt.Sprintf("%s from %s to %s", l, w.live[l], w.goal[l]))
	}
	patch := map[string]any{}
	for field, containers := range lists {
		set(patch, containers, "spec", field)
	}
	return Write{Kind: UpdateContainer, Disrupts: etcd, What: "change " + strings.Join(say, ", "), Patch: patch}
}
