// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/leave"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch;patch

// detail is what a tasks.Step of this type carries.
type detail struct {
	in   input
	step membership.Step
	at   time.Time
}

// Perform implements tasks.Methods. Its deadline counts from the observation that the step rests on, so that an operator that was
// paused in between does nothing when it wakes.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	d := step.Detail.(detail)
	ctx, cancel := context.WithTimeout(ctx, configv1alpha1.StepTimeout-h.Clock.Now().Sub(d.in.Snapshot.At))
	defer cancel()
	if !d.in.Announced && d.step.Action != membership.Announce && d.step.Action != membership.AnnounceJoin {
		// While an announcement is there, agents add and promote no member themselves, also if a recovery is not over.
		if err := h.tell(ctx, d); err != nil {
			return coded.Error(v1alpha1.ErrMembership, err)
		}
	}
	if err := h.markClaims(ctx, d); err != nil {
		return coded.Error(v1alpha1.ErrMembership, err)
	}
	switch d.step.Action {
	case membership.AddLearner, membership.PromoteLearner, membership.RemoveMember:
		return coded.Error(v1alpha1.ErrMembership, h.request(ctx, task, d))
	case membership.MoveLeader:
		return coded.Error(v1alpha1.ErrMoveLeader, h.Reader.Ask(ctx, d.in.Etcd, d.in.Snapshot, func(c etcdclient.Client) error { return c.MoveLeader(ctx, d.step.Successor) }))
	case membership.Announce, membership.AnnounceJoin, membership.Retract:
		return coded.Error(v1alpha1.ErrMembership, h.tell(ctx, d))
	case membership.DeletePod:
		return coded.Error(v1alpha1.ErrDeletePod, h.deletePod(ctx, d))
	case membership.DeleteClaim:
		return h.deleteClaim(ctx, d)
	}
	// The controller of the Etcd scales the StatefulSet, by what is recorded.
	return nil
}

// request asks etcd to change the member list.
func (h *Handler) request(ctx context.Context, task tasks.Task, d detail) error {
	id := d.step.Member
	if d.step.Action == membership.AddLearner && d.in.Etcd.Source() != nil {
		if err := h.hold(ctx, task); err != nil {
			h.tracker.answer(task.Object.UID, d.at) // nothing was requested
			return err
		}
	}
	err := h.Reader.Ask(ctx, d.in.Etcd, d.in.Snapshot, func(c etcdclient.Client) error {
		switch d.step.Action {
		case membership.PromoteLearner:
			return c.PromoteLearner(ctx, id)
		case membership.RemoveMember:
			return c.RemoveMember(ctx, id)
		}
		return c.AddLearner(ctx, peerURLs(d.in, d.step.Ordinal))
	})
	if etcdclient.IsRefusal(err) {
		h.tracker.answer(task.Object.UID, d.at)
	}
	return err
}

// hold keeps an Etcd from being gone before the member has left the source cluster that it is about to be added to.
func (h *Handler) hold(ctx context.Context, task tasks.Task) error {
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task)
	if err != nil {
		return err
	}
	return leave.Hold(ctx, h.Client, etcd)
}

// peerURLs are those of the member of an ordinal: its own, by which its agent finds it, and, where it joins the members of another
// network, the further ones under which these reach it.
func peerURLs(in input, ordinal int) []string {
	on := in.Snapshot.Ordinals[ordinal].Pod.PeerTLS == v1alpha1.TLSOn
	urls := []string{component.PeerURL(in.Etcd, int32(ordinal), on)}
	if in.Etcd.Source() != nil {
		urls = append(urls, in.Etcd.AdvertisedPeerURLs().Of(in.Etcd.MemberName(in.Etcd.PodName(int32(ordinal))))...)
	}
	return urls
}

// tell tells the members which of them leave, and has the kubelet show it to their agents at once.
func (h *Handler) tell(ctx context.Context, d detail) error {
	in := d.in
	set := &appsv1.StatefulSet{}
	reads := h.Writer.Live()
	if err := reads.Get(ctx, client.ObjectKeyFromObject(in.Etcd), set); err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", client.ObjectKeyFromObject(in.Etcd), err)
	}
	next := told(in, d.step)
	if err := h.Writer.Announce(ctx, reads, in.Etcd, ownership.Manager(in.Etcd, set), next); err != nil {
		return err
	}
	var failed error
	for i := range in.Snapshot.Ordinals {
		// A pod that is about to be deleted stays as it was observed.
		if o := &in.Snapshot.Ordinals[i]; o.Pod != nil && (d.step.Action != membership.DeletePod || i != d.step.Ordinal) {
			failed = errors.Join(failed, h.touch(ctx, in, o, next.Generation))
		}
	}
	return failed
}

// told is what the members are told once a step was carried out. No generation is used twice, also after the ConfigMap was lost. That a
// member joins is part of one generation alone: what was read of it says nothing about a later list. It is pure.
func told(in input, step membership.Step) member.Members {
	next := member.Members{Generation: in.Told.Generation + 1}
	for _, o := range in.Snapshot.Ordinals {
		next.Generation = max(next.Generation, o.Read.Generation+1)
	}
	name := in.Etcd.MemberName(in.Etcd.PodName(int32(step.Ordinal)))
	next.Leaving = slices.Clone(in.Told.Leaving)
	switch step.Action {
	case membership.AnnounceJoin:
		next.Joining = map[string]string{name: string(in.Snapshot.Ordinals[step.Ordinal].Pod.UID)}
	case membership.Announce:
		next.Leaving = append(next.Leaving, name)
	case membership.Retract:
		next.Leaving = slices.DeleteFunc(next.Leaving, func(n string) bool { return n == name })
	}
	return next
}

// touch changes an annotation of a pod, upon which the kubelet updates its mounts.
func (h *Handler) touch(ctx context.Context, in input, o *cluster.Ordinal, generation int64) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in.Etcd.Namespace, Name: o.Name, UID: o.Pod.UID}}
	told := map[string]string{v1alpha1.AnnotationMembersTold: strconv.FormatInt(generation, 10)}
	err := h.Client.Patch(ctx, pod, asread.Merge(map[string]any{"metadata": map[string]any{"annotations": told}}))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotating pod %s/%s: %w", in.Etcd.Namespace, o.Name, err)
	}
	return nil
}

// deletePod deletes the pod of an ordinal that is not in the list, if it is as it was observed.
func (h *Handler) deletePod(ctx context.Context, d detail) error {
	o := &d.in.Snapshot.Ordinals[d.step.Ordinal]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.in.Etcd.Namespace, Name: o.Name}}
	err := tasks.DeletePod(ctx, h.Client, pod, metav1.Preconditions{UID: &o.Pod.UID, ResourceVersion: &o.Pod.ResourceVersion}, 0)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// markClaims marks the claim that was made for a member that is to leave again, before that member joins, and removes the mark of one whose
// member is to stay. A claim that was there before is not marked: it is kept, or deleted, as the retention policy says.
func (h *Handler) markClaims(ctx context.Context, d detail) error {
	in := d.in
	for i, claim := range in.Claims {
		if d.step.Action == membership.DeleteClaim && i == d.step.Ordinal {
			continue // it is deleted as it was observed
		}
		temporary, marked := i >= in.Goal.Size && claim.Name == in.recorded.NewClaim, claim.Annotations[v1alpha1.AnnotationTemporary] != ""
		if temporary == marked || marked && i >= in.Goal.Size || ownership.OfClaim(in.Etcd, claim) != nil {
			continue
		}
		mark := any(claim.UID)
		if marked {
			mark = nil
		}
		if err := h.mark(ctx, claim, mark); err != nil {
			return err
		}
	}
	return nil
}

// mark marks a claim as temporary, by its UID, or removes the mark.
func (h *Handler) mark(ctx context.Context, claim *corev1.PersistentVolumeClaim, mark any) error {
	named := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}}
	patch := asread.Merge(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationTemporary: mark}}})
	if err := h.Client.Patch(ctx, named, patch); err != nil {
		return fmt.Errorf("annotating claim %s: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

// markNewClaim marks the claim that was made for a task before the task is gone, and with it all that is known of the claim. One whose member
// is to stay by now is not marked, and no claim for another Etcd.
func (h *Handler) markNewClaim(ctx context.Context, task *v1alpha1.EtcdOperatorTask) error {
	r := task.Status.Membership
	if r == nil || r.NewClaim == "" {
		return nil
	}
	etcd, err := lookup.Get[v1alpha1.Etcd](ctx, h.Live, "Etcd", task.EtcdKey())
	if err != nil || etcd == nil {
		return err
	}
	claim, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, h.Live, "claim", client.ObjectKey{Namespace: task.Namespace, Name: r.NewClaim})
	if err != nil || claim == nil {
		return err
	}
	for i := range max(r.Size, etcd.Spec.Replicas) {
		if etcd.ClaimName(i) == claim.Name {
			return nil
		}
	}
	isNew := !claim.CreationTimestamp.Before(&task.CreationTimestamp) && claim.Annotations[v1alpha1.AnnotationTemporary] == ""
	if !isNew || !etcdtasks.IsOwned(task, etcd) || ownership.OfClaim(etcd, claim) != nil {
		return nil
	}
	return client.IgnoreNotFound(h.mark(ctx, claim, claim.UID))
}

// deleteClaim deletes the claim of an ordinal that is not in the list, if it is as it was observed and the Etcd's own.
func (h *Handler) deleteClaim(ctx context.Context, d detail) error {
	claim := d.in.Claims[d.step.Ordinal]
	key := client.ObjectKeyFromObject(claim)
	if foreign := ownership.OfClaim(d.in.Etcd, claim); foreign != nil {
		return coded.Error(v1alpha1.ErrForeignObject, fmt.Errorf("deleting claim %s: %s", key, foreign))
	}
	err := h.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return coded.Error(v1alpha1.ErrMembership, fmt.Errorf("deleting claim %s: %w", key, err))
	}
	return nil
}
