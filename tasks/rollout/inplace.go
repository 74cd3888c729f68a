// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
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

// updatesInPlace reports whether pods that have to follow the template are updated in place where that is possible.
func (h *Handler) updatesInPlace(task tasks.Task, s *cluster.Snapshot) bool {
	return !h.ReplacesAlways && task.Config.(rollout.Config).InPlace(task.Etcd.Spec.PodUpdatePolicy, h.PodUpdatePolicy) &&
		slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool {
			return o.Pod != nil && !o.Pod.At(s.StatefulSet.UpdateRevision)
		})
}

// executeInPlace is Execute where pods are updated in place. It rests on live reads alone: a cache does not keep whole pods.
func (h *Handler) executeInPlace(ctx context.Context, task tasks.Task, cached *cluster.Snapshot) (tasks.Verdict, error) {
	live := &read.Reader{Reader: h.Live, Known: h.tracker.revisions(task.Object.UID)}
	snapshot, err := h.Observer.Confirm(ctx, live, task.Etcd, cached)
	if err != nil {
		return unobserved(err)
	}
	target := snapshot.StatefulSet.UpdateRevision
	assessed, err := live.Assess(ctx, task.Object.Namespace, snapshot.StatefulSet, target, func(pod types.UID) string {
		if u := h.tracker.unfitFor(task.Object.UID, pod, target); u.until.IsZero() {
			return u.message
		}
		return ""
	})
	if err != nil {
		return tasks.Verdict{}, &tasks.CodedError{Code: v1alpha1.ErrObserve, Err: err}
	}
	for pod, a := range assessed {
		if u := h.tracker.unfitFor(task.Object.UID, pod, target); h.Clock.Now().Before(u.until) {
			assessed[pod] = u.wait(a)
		}
	}
	in, decision, now := h.decide(task, snapshot, h.tracker.assess(task.Object.UID, snapshot, assessed))
	return verdict(in, decision, now), nil
}

// wait is the assessment of a pod while a quota or a LimitRange does not allow its next write. If that was to revert an update,
// the pod, which already takes up what its replacement will, is replaced as it is.
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
	patch := maps.Clone(d.step.Write.Patch)
	metadata := map[string]any{"uid": o.Pod.UID, "resourceVersion": o.Pod.ResourceVersion}
	if given, ok := patch["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = task.Object.Namespace, o.Name
	change := client.RawPatch(types.StrategicMergePatchType, body)
	if d.step.Write.Kind == inplace.ResizePod {
		err = h.resize(ctx, pod, *d.step.Write, change)
	} else {
		err = h.Client.Patch(ctx, pod, change)
	}
	if err == nil && pod.ResourceVersion == o.Pod.ResourceVersion {
		err = apierrors.NewForbidden(corev1.Resource("pods"), o.Name, errors.New("the write had no effect: an admission webhook or policy changed it back"))
	}
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		u := unfit{target: d.in.Snapshot.StatefulSet.UpdateRevision, message: err.Error()}
		if concernsNewPods(err) {
			u.until = h.Clock.Now().Add(quotaRetry)
		}
		h.tracker.refuseUpdate(task.Object.UID, o.Pod.UID, u)
		// It can no longer come, unless another operator recorded the same.
		now := h.Clock.Now()
		h.tracker.refuse(task.Object.UID, o.Pod.UID, rollout.Refusal{At: now, Update: true, Message: err.Error(), MayStillHappen: rollout.IsIntent(d.in, o.Pod.UID, now)})
	}
	return fmt.Errorf("updating pod %s/%s in place: %w", task.Object.Namespace, o.Name, err)
}

// resize resizes a pod, if the API server does that and no more.
func (h *Handler) resize(ctx context.Context, pod *corev1.Pod, w inplace.Write, change client.Patch) error {
	would, resize := pod.DeepCopy(), h.Client.SubResource("resize")
	dryRun := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	if err := resize.Patch(ctx, would, change, dryRun); err != nil {
		return err //nolint:wrapcheck // the caller looks at it
	}
	if unasked := w.Unasked(would); unasked != "" {
		return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("a LimitRange or another admission would also change %s of a running pod", unasked))
	}
	return resize.Patch(ctx, pod, change) //nolint:wrapcheck // the caller looks at it
}

// quotaRetry is how long a pod waits that a quota or a LimitRange does not allow.
const quotaRetry = 10 * time.Second

// concernsNewPods reports whether a write was refused by a quota or a LimitRange, or since it could not be compared with one:
// that would refuse a new pod as well, and the old one would be gone. The API server says so in words alone.
func concernsNewPods(err error) bool {
	return slices.ContainsFunc([]string{" quota: ", "insufficient quota", "quota usage", " per Container is ", " per Pod is ", "enforcing limit ranges"}, func(words string) bool {
		return strings.Contains(err.Error(), words)
	})
}

// isRefusal reports whether the API server does not take a write, now or later: by admission, validation or authorization, or
// since it has no such subresource. After a conflict the pod is looked at again, and one that is gone is seen to be gone.
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
