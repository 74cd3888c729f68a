// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// detail is the Detail of a tasks.Step: the step, and the observation and the time that it was decided on.
type detail struct {
	in   rollout.Input
	at   time.Time
	step rollout.Step
}

// Perform implements tasks.Methods. Its deadline counts from the observation that the step rests on, so that an operator that was paused
// since does nothing when it resumes.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	d := step.Detail.(detail)
	ctx, cancel := context.WithTimeout(ctx, configv1alpha1.StepTimeout-h.Clock.Now().Sub(earlier(d.in.Snapshot.At, d.at)))
	defer cancel()
	switch d.step.Action {
	case rollout.MoveLeader:
		return coded.Error(v1alpha1.ErrMoveLeader, h.moveLeader(ctx, task.Etcd, d))
	case rollout.TakeSnapshot:
		return coded.Error(v1alpha1.ErrSnapshot, h.takeSnapshot(ctx, task, d))
	}
	if d.step.IsRemoval() || d.step.Write != nil {
		if err := h.confirmDeleter(ctx, task); err != nil {
			return err
		}
	}
	var failed error
	for _, i := range d.step.Ordinals {
		failed = errors.Join(failed, h.performOn(ctx, task, d, i))
	}
	return failed
}

// confirmDeleter reads the StatefulSet right before a removal: a client that changes its update strategy takes no lock of this operator,
// and the StatefulSet controller may then remove a pod at once. Of an adopted one it reads the Etcd, too, to which etcd-druid comes back first.
func (h *Handler) confirmDeleter(ctx context.Context, task tasks.Task) error {
	set, key := &appsv1.StatefulSet{}, task.Object.EtcdKey()
	if err := h.Live.Get(ctx, key, set); err != nil {
		return coded.Error(v1alpha1.ErrObserve, fmt.Errorf("reading StatefulSet %s: %w", key, err))
	}
	etcd := task.Etcd
	if ownership.Manager(etcd, set) != "" {
		var err error
		if etcd, err = tasks.LiveEtcd(ctx, h.Live, task); err != nil {
			return err
		}
	}
	if objection := h.Rule.Objection(etcd, set); objection != "" {
		return coded.Error(v1alpha1.ErrStrategy, errors.New(objection))
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (h *Handler) performOn(ctx context.Context, task tasks.Task, d detail, ordinal int) error {
	o := d.in.Snapshot.Ordinals[ordinal]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: task.Object.Namespace, Name: o.Name}}
	observed := metav1.Preconditions{UID: &o.Pod.UID, ResourceVersion: &o.Pod.ResourceVersion}
	if d.step.AsksBudget {
		if err := tasks.EvictPod(ctx, h.Client, pod, observed, metav1.DryRunAll); err != nil {
			return coded.Error(v1alpha1.ErrEvictPod, h.refusable(task, d, ordinal, "asking whether budgets allow a disruption of", err))
		}
	}
	if d.step.Write != nil {
		return coded.Error(v1alpha1.ErrUpdatePod, h.write(ctx, task, d, ordinal))
	}
	switch d.step.Action {
	case rollout.DeletePod:
		err := tasks.DeletePod(ctx, h.Client, pod, observed, d.step.Grace[ordinal])
		return coded.Error(v1alpha1.ErrDeletePod, h.refusable(task, d, ordinal, "deleting", err))
	case rollout.EvictPod:
		err := tasks.EvictPod(ctx, h.Client, pod, observed)
		return coded.Error(v1alpha1.ErrEvictPod, h.refusable(task, d, ordinal, "evicting", err))
	case rollout.RevokeDeletion:
		return coded.Error(v1alpha1.ErrRevokeDeletion, h.revoke(ctx, task.Object, pod, o.Pod.UID, o.Pod.ResourceVersion))
	}
	return fmt.Errorf("performing %s: no such action", d.step.Action)
}

// refusable records that the API server refused a removal, which therefore cannot happen any more. A conflict is not recorded: the pod has
// changed, perhaps because another operator removed it, and the next observation shows how. Any other error leaves open whether the removal
// happened.
func (h *Handler) refusable(task tasks.Task, d detail, ordinal int, doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsConflict(err) && status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError {
		pod, now := d.in.Snapshot.Ordinals[ordinal].Pod.UID, h.Clock.Now()
		h.tracker.refuse(task.Object.UID, pod, rollout.RefusedWrite{
			At: now, ByBudget: apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), Message: err.Error(),
			// Another operator may have requested the same removal before; this refusal does not tell.
			MayStillHappen: rollout.IsIntent(d.in, pod, now),
		})
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

// handoverPoll is how often a successor is asked whether it leads.
const handoverPoll = 10 * time.Millisecond

// handOver moves leadership to a member. It returns as soon as etcd answers or the successor says that it leads: the successor knows at
// once, and etcd may answer a heartbeat later.
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

// revoke makes a recorded removal impossible: it changes the pod's resourceVersion, which is a precondition of the deletion. The annotation
// has a new value each time, since writing the same one would change nothing.
func (h *Handler) revoke(ctx context.Context, task *v1alpha1.EtcdOperatorTask, pod *corev1.Pod, uid types.UID, resourceVersion string) error {
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: uid}}
	revoked := map[string]string{v1alpha1.AnnotationDeletionRevoked: task.Name + "@" + resourceVersion}
	err := h.Client.Patch(ctx, named, asread.Merge(map[string]any{"metadata": map[string]any{"annotations": revoked}}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && h.isAnother(ctx, client.ObjectKeyFromObject(pod), uid) {
		// The pod is gone, has changed, or is another one: the deletion cannot succeed any more.
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoking the deletion of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isAnother reports whether the pod of this name certainly no longer has this UID. The API server rejects a patch of another pod as
// invalid, because a UID is immutable.
func (h *Handler) isAnother(ctx context.Context, key types.NamespacedName, uid types.UID) bool {
	pod := &corev1.Pod{}
	err := h.Live.Get(ctx, key, pod)
	return apierrors.IsNotFound(err) || err == nil && pod.UID != uid
}

// Cleanup implements tasks.Methods.
func (h *Handler) Cleanup(ctx context.Context, task tasks.Task) error {
	if err := h.RevokeIntents(ctx, task); err != nil {
		return err
	}
	h.tracker.forget(task.Object.UID)
	h.snapshots.Forget(task.Object.UID)
	return nil
}

// RevokeIntents is that of a tasks.Type: a recorded removal or write that has not happened must not happen later.
func (h *Handler) RevokeIntents(ctx context.Context, task tasks.Task) error {
	r := task.Object.Status.Rollout
	if r == nil {
		return nil
	}
	for _, p := range r.Pods {
		if p.LastOperation.State != v1alpha1.OperationStateInProgress {
			continue
		}
		if err := h.revokeIntent(ctx, task.Object, p); err != nil {
			return coded.Error(v1alpha1.ErrRevokeDeletion, err)
		}
	}
	return nil
}

func (h *Handler) revokeIntent(ctx context.Context, task *v1alpha1.EtcdOperatorTask, p v1alpha1.RolloutPod) error {
	pod, err := lookup.Get[corev1.Pod](ctx, h.Live, "pod", client.ObjectKey{Namespace: task.Namespace, Name: p.Name})
	if err != nil || pod == nil || pod.UID != p.UID || pod.DeletionTimestamp != nil || pod.ResourceVersion != p.Evidence.ResourceVersion {
		return err
	}
	return h.revoke(ctx, task, pod, pod.UID, pod.ResourceVersion)
}
