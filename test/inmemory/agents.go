// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inmemory

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// await gives a pod the status of one whose agent waits until its member is listed, and reports whether it had another.
func (w *World) await(p *corev1.Pod, ordinal int) bool {
	now := metav1.NewTime(w.now())
	switch {
	case len(p.Status.InitContainerStatuses) > 0:
		return false
	case len(p.Status.ContainerStatuses) > 0:
		// It was removed while it ran: etcd ends, and is started again and again.
		if p.Status.ContainerStatuses[0].State.Running == nil {
			return false
		}
		for i := range p.Status.ContainerStatuses {
			p.Status.ContainerStatuses[i].Ready = false
			p.Status.ContainerStatuses[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}
		return true
	}
	refusal := cluster.Refusal{Reason: v1alpha1.ReasonNotListed, Message: "the others serve without the member", Volume: cluster.Volume{Store: cluster.StoreFree}}
	p.Status = corev1.PodStatus{
		Phase: corev1.PodPending, StartTime: &now, PodIP: podIP(ordinal), PodIPs: []corev1.PodIP{{IP: podIP(ordinal)}},
		InitContainerStatuses: []corev1.ContainerStatus{{
			Name: v1alpha1.InitContainerPrepare, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: refusal.TerminationMessage()}},
		}},
	}
	return true
}

// agents have those of running members report what they read of members that leave.
func (w *World) agents(ctx context.Context) error {
	config := &corev1.ConfigMap{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: Name + "-config"}, config); err != nil {
		return client.IgnoreNotFound(err)
	}
	told, err := member.ParseMembers(config.Data[member.KeyMembers])
	if err != nil {
		return fmt.Errorf("reading what members are told: %w", err)
	}
	if told == nil {
		told = &member.Members{Etcd: string(config.OwnerReferences[0].UID)}
	}
	for i, name := range w.Members.Names {
		read := cluster.Read{Etcd: told.Etcd, Generation: told.Generation, Leaving: told.Leaves(name)}
		if listed, _, _ := w.Members.Lists(i); !listed && w.ids[name] != 0 {
			read.Removed = fmt.Sprintf("%x", w.ids[name])
		} else if !w.ready[name] {
			continue
		}
		if reports, err := w.reports(ctx, name); err != nil {
			return err
		} else if !reports {
			continue
		}
		lease := &coordinationv1.Lease{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, lease); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("reading the lease of %s: %w", name, err)
		}
		if lease.Annotations[v1alpha1.AnnotationMembersRead] == read.Encode() {
			continue
		}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationMembersRead, read.Encode())
		if err := w.Update(ctx, lease); err != nil {
			return fmt.Errorf("reporting what %s has read: %w", name, err)
		}
	}
	return nil
}

// reports reports whether the agent in a pod is one that reports what it reads.
func (w *World) reports(ctx context.Context, pod string) (bool, error) {
	if w.Reporting == "" {
		return true, nil
	}
	p := &corev1.Pod{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: pod}, p); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Image == w.Reporting }), nil
}
