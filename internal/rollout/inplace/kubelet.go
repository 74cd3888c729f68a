// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	corev1 "k8s.io/api/core/v1"
)

const (
	// settleAfterLowering is how long a member has to participate without a restart after its resources were lowered.
	settleAfterLowering = 30 * time.Second
	// settleAfterRestart is how long a container whose health is not checked has to run after its update. Whether etcd works shows at once;
	// an agent that ends a moment after its start would pass otherwise, pod after pod.
	settleAfterRestart = 2 * time.Second
	// resizeGrace is how long the kubelet may take to resize a pod.
	resizeGrace = time.Minute
)

// A failure that a mark records begins with unresizable if the kubelet has not resized the pod, and goes on with infeasible if it never
// will.
const (
	unresizable = "it cannot be resized: "
	infeasible  = string(corev1.PodResizePending) + ": " + corev1.PodReasonInfeasible
)

// wait fills in what the first write has to wait for. A write that begins, or changes resources, waits for nothing: so a
// template that is changed again takes effect although the kubelet has not carried out the one before.
func (w *work) wait(a *Assessment) {
	first := a.Writes[0]
	if w.mark == nil || first.Kind == ResizePod || first.Kind == PatchMetadata && !first.Final {
		return
	}
	resize := w.unresized()
	a.Pending = resize
	if a.Pending == "" {
		a.Pending = w.unrestarted(first)
	}
	a.Phase = strings.Join([]string{w.TargetName, string(first.Kind), a.Pending, w.runs()}, "|")
	switch {
	case resize != "":
		a.GiveUpAfter = resizeGrace
		if strings.HasPrefix(resize, infeasible) {
			a.GiveUpAfter = 0
		}
		failed := *w.mark
		failed.Failed = unresizable + resize
		a.GiveUp = &Write{Kind: PatchMetadata, What: "record that " + failed.Failed, Patch: map[string]any{}}
		set(a.GiveUp.Patch, failed.String(), "metadata", "annotations", v1alpha1.AnnotationInPlaceUpdate)
		// The progress of a resize is no reason to wait for longer.
		a.Phase = strings.Join([]string{w.TargetName, "resize", w.runs()}, "|")
	case first.Final && slices.ContainsFunc(w.leaves, w.lowered):
		a.Settle = settleAfterLowering
	case first.Final && w.mark.RestartsOthers():
		a.Settle = settleAfterRestart
	}
	a.AtRisk = a.AtRisk || first.Final && slices.ContainsFunc(w.leaves, w.lowered)
}

// restartsSoon reports whether a write was carried out that restarts etcd, and the kubelet has yet to react to it: whatever the
// target is by now, and also if the pod is to be replaced.
func (w *work) restartsSoon() bool {
	if w.mark == nil {
		return false
	}
	before, restarts := w.mark.Containers[v1alpha1.ContainerEtcd]
	from, to := w.Templates[w.mark.Source], w.Templates[w.mark.Target]
	if !restarts || from == nil || to == nil {
		return false
	}
	live := leavesOf(w.Pod.Labels, w.Pod.Annotations, &w.Pod.Spec)
	differs := func(v values) bool {
		return slices.ContainsFunc(changed(v, live), func(l leaf) bool { return l.container == v1alpha1.ContainerEtcd && w.restarts(l) })
	}
	switch containerID(w.Pod, v1alpha1.ContainerEtcd) {
	case w.mark.Originals[v1alpha1.ContainerEtcd]:
		return differs(from.leaves())
	case before:
		return !differs(to.leaves())
	}
	return false
}

// lowered reports whether a leaf has become lower than it may have been.
func (w *work) lowered(l leaf) bool {
	return w.goal.lowers(w.from, l) || slices.ContainsFunc(w.halfway, func(v values) bool { return w.goal.lowers(v, l) })
}

// unresized returns what the kubelet has yet to do before all containers have the resources of the spec; empty if they do.
func (w *work) unresized() string {
	resized := slices.DeleteFunc(slices.Clone(w.leaves), func(l leaf) bool { return l.kind != ResizePod })
	if len(resized) == 0 {
		return ""
	}
	// What the conditions say of an earlier spec is no answer to this one.
	if s := w.unseen(); s != "" {
		return s
	}
	for _, t := range []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress} {
		if c := pods.Condition(w.Pod, t); c != nil && c.Status == corev1.ConditionTrue {
			return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", t, c.Reason, c.Message), ": ")
		}
	}
	for _, l := range resized {
		status := pods.Container(w.Pod, l.container)
		if status == nil || status.Resources == nil {
			return fmt.Sprintf("the kubelet does not report the resources of container %s yet", l.container)
		}
		actual := status.Resources.Requests
		if l.bound == limits {
			actual = status.Resources.Limits
		}
		if q := actual[corev1.ResourceName(l.key)]; q.Cmp(quantity(w.live[l])) != 0 {
			return fmt.Sprintf("the kubelet still reports %s for %s", q.String(), l)
		}
	}
	return ""
}

// unseen says that the kubelet has not reported on the newest spec; empty if it has, or does not report generations.
func (w *work) unseen() string {
	if seen := w.Pod.Status.ObservedGeneration; seen > 0 && seen < w.Pod.Generation {
		return "the kubelet has not seen the newest spec of the pod yet"
	}
	return ""
}

// unrestarted returns the container that has yet to run again after its update; empty if there is none. One that is updated
// once more is not waited for.
func (w *work) unrestarted(next Write) string {
	if s := w.unseen(); s != "" && next.Final {
		return s
	}
	for _, c := range w.Pod.Spec.Containers {
		before, restarted := w.mark.Containers[c.Name]
		if !restarted || w.isLeft(c.Name) {
			continue
		}
		s := pods.Container(w.Pod, c.Name)
		switch {
		case s == nil || s.State.Running == nil:
			return fmt.Sprintf("container %s is not running after its update%s: if this persists, fix the cause, or change the template", c.Name, trouble(s))
		case s.ContainerID == before && !w.isBack(c.Name, s.ContainerID):
			return fmt.Sprintf("the kubelet has not restarted container %s yet: if this persists, check the kubelet, or replace the pod with \"kubectl etcdtask restart ETCD\"", c.Name)
		}
	}
	return ""
}

// isBack reports whether a container has the image that it had at the beginning, and was never restarted: the update was taken
// back before the kubelet saw it.
func (w *work) isBack(container, id string) bool {
	return w.mark.Originals[container] == id && !slices.ContainsFunc(w.leaves, func(l leaf) bool {
		return l.container == container && !l.init && w.restarts(l) && !w.goal.same(w.from, l)
	})
}

// isLeft reports whether a container has yet to be updated.
func (w *work) isLeft(container string) bool {
	return slices.ContainsFunc(w.leaves, func(l leaf) bool {
		return l.container == container && !l.init && w.restarts(l) && !w.live.same(w.goal, l)
	})
}

func trouble(s *corev1.ContainerStatus) string {
	switch {
	case s == nil:
	case s.State.Waiting != nil:
		return fmt.Sprintf(" (%s)", strings.TrimSuffix(s.State.Waiting.Reason+": "+s.State.Waiting.Message, ": "))
	case s.State.Terminated != nil:
		return fmt.Sprintf(" (exited with code %d)", s.State.Terminated.ExitCode)
	}
	return ""
}

// runs identifies the present run of every container.
func (w *work) runs() string {
	var ids []string
	for _, s := range w.Pod.Status.ContainerStatuses {
		ids = append(ids, fmt.Sprintf("%s=%s#%d", s.Name, s.ContainerID, s.RestartCount))
	}
	slices.Sort(ids)
	return strings.Join(ids, ",")
}

func containerID(pod *corev1.Pod, name string) string {
	if s := pods.Container(pod, name); s != nil {
		return s.ContainerID
	}
	return ""
}
