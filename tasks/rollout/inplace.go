// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Updates in place: package inplace decides how a pod can follow the template and what to write next, from whole pods and
// ControllerRevisions that are read from the API server. This file writes, and confirms each write.

// updatesInPlace reports whether outdated pods are updated in place where that is possible.
func (h *Handler) updatesInPlace(task tasks.Typed[rollout.Config], s *cluster.Snapshot) bool {
	return !h.ReplacesAlways && task.Config.InPlace(task.Etcd.Spec.PodUpdatePolicy, h.PodUpdatePolicy) &&
		slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool {
			return o.Pod != nil && !o.Pod.At(s.StatefulSet.UpdateRevision)
		})
}

// assess returns how each outdated pod of a live snapshot can follow the template. The zero value replaces all of them.
func (h *Handler) assess(ctx context.Context, task tasks.Typed[rollout.Config], live *read.Reader, snapshot *cluster.Snapshot) (inplace.Updates, error) {
	if !h.updatesInPlace(task, snapshot) {
		return inplace.Updates{}, nil
	}
	target := snapshot.StatefulSet.UpdateRevision
	assessed, err := live.Assess(ctx, task.Object.Namespace, snapshot.StatefulSet, target, func(pod types.UID) string {
		if u := h.tracker.unfitFor(task.Object.UID, pod, target); u.until.IsZero() {
			return u.message
		}
		return ""
	})
	if err != nil {
		return inplace.Updates{}, fmt.Errorf("assessing pods: %w", err)
	}
	refused := false
	for pod, a := range assessed {
		u := h.tracker.unfitFor(task.Object.UID, pod, target)
		refused = refused || u != unfit{}
		if h.Clock.Now().Before(u.until) {
			assessed[pod] = u.wait(a)
		}
	}
	return h.tracker.assess(task.Object.UID, snapshot, assessed, !refused), nil
}

// known returns how each outdated pod of a cached snapshot can follow the template, if that was assessed when it was as it is.
func (h *Handler) known(task tasks.Typed[rollout.Config], snapshot *cluster.Snapshot) (updates inplace.Updates, known bool) {
	if !h.updatesInPlace(task, snapshot) {
		return inplace.Updates{}, true
	}
	return h.tracker.assessAgain(task.Object.UID, snapshot)
}

// wait returns the assessment of a pod while a quota or a LimitRange does not allow its next write. If that write would revert an update,
// the pod is replaced instead: its replacement takes up no more than it does.
func (u unfit) wait(a inplace.Assessment) inplace.Assessment {
	if a.Replace != "" {
		a.Writes = nil
		return a
	}
	a.Pending, a.GiveUp = fmt.Sprintf("the API server refused it (%s), and would refuse a new pod too: change the quota, the LimitRange or the template; retrying every %s", u.message, quotaRetry), nil
	return a
}

// write carries out one write to a pod, if the pod is as it was observed.
func (h *Handler) write(ctx context.Context, task tasks.Task, d detail, ordinal int) error {
	o := d.in.Snapshot.Ordinals[ordinal]
	err := h.patch(ctx, client.ObjectKey{Namespace: task.Object.Namespace, Name: o.Name}, o.Pod, *d.step.Write)
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		now := h.Clock.Now()
		u := unfit{target: d.in.Snapshot.StatefulSet.UpdateRevision, message: err.Error()}
		if concernsNewPods(err) {
			u.until = now.Add(quotaRetry)
		}
		h.tracker.refuseUpdate(task.Object.UID, o.Pod.UID, u)
		// The write can no longer happen, unless another operator recorded the same one.
		h.tracker.refuse(task.Object.UID, o.Pod.UID, rollout.RefusedWrite{At: now, Update: true, Message: err.Error(), MayStillHappen: rollout.IsIntent(d.in, o.Pod.UID, now)})
	}
	return fmt.Errorf("updating pod %s/%s in place: %w", task.Object.Namespace, o.Name, err)
}

// patch writes to a pod. A resize has a dry run first, which shows what else the API server would change.
func (h *Handler) patch(ctx context.Context, key client.ObjectKey, observed *cluster.Pod, w inplace.Write) error {
	body, err := w.Body(observed.UID, observed.ResourceVersion)
	if err != nil {
		return err
	}
	change := client.RawPatch(types.StrategicMergePatchType, body)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if w.Kind != inplace.ResizePod {
		err = h.Client.Patch(ctx, pod, change)
	} else {
		would, resize := pod.DeepCopy(), h.Client.SubResource("resize")
		dryRun := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
		if err = resize.Patch(ctx, would, change, dryRun); err == nil {
			err = confirmNothingElse(w, would)
		}
		if err == nil {
			err = resize.Patch(ctx, pod, change)
		}
	}
	if err != nil {
		return err
	}
	return confirmEffect(observed, pod)
}

// confirmNothingElse confirms that a resize changes only what it should.
func confirmNothingElse(w inplace.Write, would *corev1.Pod) error {
	if unasked := w.Unasked(would); unasked != "" {
		return apierrors.NewForbidden(corev1.Resource("pods"), would.Name, fmt.Errorf("a LimitRange or another admission would also change %s of a running pod", unasked))
	}
	return nil
}

// confirmEffect confirms that a write has changed a pod.
func confirmEffect(before *cluster.Pod, after *corev1.Pod) error {
	if after.ResourceVersion == before.ResourceVersion {
		return apierrors.NewForbidden(corev1.Resource("pods"), after.Name, errors.New("the write had no effect: an admission webhook or policy changed it back"))
	}
	return nil
}

// quotaRetry is how long a pod waits after a quota or a LimitRange refused its update.
const quotaRetry = 10 * time.Second

// concernsNewPods reports whether a quota or a LimitRange refused a write, or could not be evaluated: a new pod would be refused as well,
// once the old one is gone. Only the text of the API server's error says so.
func concernsNewPods(err error) bool {
	return slices.ContainsFunc([]string{" quota: ", "insufficient quota", "quota usage", " per Container is ", " per Pod is ", "enforcing limit ranges"}, func(words string) bool {
		return strings.Contains(err.Error(), words)
	})
}

// isRefusal reports whether the API server refuses a write for good: by admission, validation or authorization, or because it lacks the
// subresource. A conflict is no refusal: the pod is read again, which also shows whether it is gone.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
