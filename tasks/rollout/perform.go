// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// detail is what a tasks.Step of this type carries.
type detail struct {
	// in is what the step was decided on, and at is when.
	in   Input
	at   time.Time
	step Step
	// confirm returns what is seen while a removal is announced.
	confirm func() (*observe.Snapshot, error)
}

// Perform is tasks.Handler's. Its deadline counts from the observation that the step rests on, and from the decision,
// so that an operator which was paused in between does nothing when it wakes.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	d := step.Detail.(detail)
	snapshot := d.in.Snapshot
	if d.step.isRemoval() {
		var err error
		if snapshot, err = h.confirmed(ctx, task, d); err != nil {
			h.withdraw(task, d, err)
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout-h.Clock.Now().Sub(earlier(snapshot.At, d.at)))
	defer cancel()
	if d.step.Action == MoveLeader {
		return coded(v1alpha1.ErrMoveLeader, h.moveLeader(ctx, task.Etcd, d))
	}
	var failed error
	for _, i := range d.step.Ordinals {
		failed = errors.Join(failed, h.performOn(ctx, task, d, i))
	}
	return failed
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// confirmed is what has been seen while a removal was announced. It is tasks.ErrOvertaken unless that leads to the very
// removal that was announced: the same pods, for the same reason, with the same evidence.
func (h *Handler) confirmed(ctx context.Context, task tasks.Task, d detail) (*observe.Snapshot, error) {
	snapshot, err := d.confirm()
	if err != nil {
		return nil, coded(v1alpha1.ErrObserve, err)
	}
	in := d.in
	in.Snapshot, in.Spells = snapshot, h.memory.observe(task.Object.UID, snapshot)
	decision := Decide(in, h.Clock.Now())
	said, found := announcement(d.in, Decision{Conclusion: Act, Step: &d.step}, d.at), announcement(in, decision, d.at)
	if !reflect.DeepEqual(said, found) {
		log.FromContext(ctx).Info("Removal is not confirmed", "announced", said, "conclusion", decision.Conclusion, "hold", decision.Hold, "confirmed", found)
		return nil, tasks.ErrOvertaken
	}
	return snapshot, nil
}

// withdraw remembers that a removal which was announced is not sent.
func (h *Handler) withdraw(task tasks.Task, d detail, why error) {
	for _, i := range d.step.Ordinals {
		h.refuse(task, d, i, Refusal{Withdrawn: true, Message: why.Error()})
	}
}

// refuse remembers a refusal. It says nothing of the request of another operator that announced the same removal before.
func (h *Handler) refuse(task tasks.Task, d detail, ordinal int, refusal Refusal) {
	refusal.At = h.Clock.Now()
	refusal.MayCome = slices.Contains(situate(d.in, refusal.At).announced, ordinal)
	h.memory.refuse(task.Object.UID, d.in.Snapshot.Ordinals[ordinal].Pod.UID, refusal)
}

func (h *Handler) performOn(ctx context.Context, task tasks.Task, d detail, ordinal int) error {
	o := d.in.Snapshot.Ordinals[ordinal]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: task.Object.Namespace, Name: o.Name}}
	only := metav1.Preconditions{UID: &o.Pod.UID, ResourceVersion: &o.Pod.ResourceVersion}
	switch d.step.Action {
	case DeletePod:
		err := h.Client.Delete(ctx, pod, client.Preconditions(only))
		return coded(v1alpha1.ErrDeletePod, h.refusable(task, d, ordinal, "deleting", err))
	case EvictPod:
		err := h.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &only}})
		return coded(v1alpha1.ErrEvictPod, h.refusable(task, d, ordinal, "evicting", err))
	case RevokeDeletion:
		return coded(v1alpha1.ErrRevokeDeletion, h.revoke(ctx, task.Object, pod, o.Pod.UID, o.Pod.ResourceVersion))
	}
	return fmt.Errorf("performing %s: no such action", d.step.Action)
}

// refusable remembers a refusal, which is an answer: after it, the removal cannot come any more. A conflict is not
// remembered: the pod shows how it has changed, and it may have changed because another operator removed it. Any other
// error leaves open whether it was carried out.
func (h *Handler) refusable(task tasks.Task, d detail, ordinal int, doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsConflict(err) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError {
		h.refuse(task, d, ordinal, Refusal{ByBudget: apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), Message: err.Error()})
	}
	return fmt.Errorf("%s pod %s/%s: %w", doing, task.Object.Namespace, d.in.Snapshot.Ordinals[ordinal].Name, err)
}

func (h *Handler) moveLeader(ctx context.Context, etcd *v1alpha1.Etcd, d detail) error {
	leader, successor := d.in.Snapshot.Ordinals[d.step.Ordinals[0]], d.in.Snapshot.Ordinals[d.step.Successor]
	from, err := h.Credentials.Dial(ctx, h.Dialer, etcd, leader.Name, leader.Pod.Endpoint)
	if err != nil {
		return fmt.Errorf("connecting to the leader %s: %w", leader.Name, err)
	}
	defer from.Close() //nolint:errcheck // nothing depends on how the connection ends
	to, err := h.Credentials.Dial(ctx, h.Dialer, etcd, successor.Name, successor.Pod.Endpoint)
	if err != nil {
		return fmt.Errorf("connecting to the successor %s: %w", successor.Name, err)
	}
	defer to.Close() //nolint:errcheck // nothing depends on how the connection ends
	if err := handOver(ctx, from, to, successor.MemberID); err != nil {
		return fmt.Errorf("moving leadership from %s to %s: %w", leader.Name, successor.Name, err)
	}
	return nil
}

// handOver moves leadership to a member. etcd's answer may come a heartbeat after the fact; the successor knows at
// once, so whichever says so first is believed.
func handOver(ctx context.Context, from, to etcdclient.Client, successor uint64) error {
	var both sync.WaitGroup
	defer both.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 2)
	both.Go(func() { answers <- from.MoveLeader(ctx, successor) })
	both.Go(func() {
		if wait.PollUntilContextCancel(ctx, handoverPoll, false, func(ctx context.Context) (bool, error) {
			status, err := to.Status(ctx)
			return err == nil && status.Leader == successor, nil
		}) == nil {
			answers <- nil
		}
	})
	return <-answers
}

// revoke makes a deletion that was announced impossible: it moves the pod's resourceVersion, which is the
// deletion's precondition. The annotation differs each time, or writing it would move nothing.
func (h *Handler) revoke(ctx context.Context, task *v1alpha1.EtcdOperatorTask, pod *corev1.Pod, uid types.UID, resourceVersion string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         uid,
		"annotations": map[string]string{v1alpha1.AnnotationDeletionRevoked: task.Name + "@" + resourceVersion},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	err = h.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// The pod is gone, or is another one: so is the deletion.
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoking the deletion of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Cleanup is tasks.Handler's: a deletion that was announced and did not happen must not happen later.
func (h *Handler) Cleanup(ctx context.Context, task tasks.Task) error {
	if r := task.Object.Status.Rollout; r != nil {
		for _, p := range r.Pods {
			if p.LastOperation.State != v1alpha1.OperationStateInProgress {
				continue
			}
			if err := h.cleanUpAfter(ctx, task.Object, p); err != nil {
				return &tasks.CodedError{Code: v1alpha1.ErrRevokeDeletion, Err: err}
			}
		}
	}
	h.memory.forget(task.Object.UID)
	return nil
}

func (h *Handler) cleanUpAfter(ctx context.Context, task *v1alpha1.EtcdOperatorTask, p v1alpha1.RolloutPod) error {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: task.Namespace, Name: p.Name}
	if err := h.Live.Get(ctx, key, pod); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading pod %s: %w", key, err)
	}
	if pod.UID != p.UID || pod.DeletionTimestamp != nil || pod.ResourceVersion != p.Evidence.ResourceVersion {
		return nil
	}
	return h.revoke(ctx, task, pod, pod.UID, pod.ResourceVersion)
}

func coded(code v1alpha1.ErrorCode, err error) error {
	if err == nil {
		return nil
	}
	return &tasks.CodedError{Code: code, Err: err}
}
