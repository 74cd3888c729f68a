// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remove deletes an object. A pod on a node keeps existing until its kubelet confirms its end, an object with finalizers until they are gone.
func (s *Server) remove(kind string, key types.NamespacedName, o client.DeleteOptions) error {
	live := s.table.Find(kind, key)
	if live == nil {
		return apierrors.NewNotFound(resource(kind), key.Name)
	}
	if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != live.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion()) {
		return apierrors.NewConflict(resource(kind), key.Name, errors.New("the preconditions do not hold"))
	}
	grace := graceOf(live, o.GracePeriodSeconds)
	finalizers := live.GetFinalizers()
	switch policy := ptr.Deref(o.PropagationPolicy, metav1.DeletePropagationBackground); {
	case len(o.DryRun) > 0:
		return nil
	case policy == metav1.DeletePropagationOrphan:
		finalizers = with(finalizers, metav1.FinalizerOrphanDependents)
	case policy == metav1.DeletePropagationForeground && len(s.dependents(live.GetUID())) > 0:
		finalizers = with(finalizers, metav1.FinalizerDeleteDependents)
	}
	if grace == 0 && len(finalizers) == 0 {
		s.commit(kind, live, nil)
		return nil
	}
	deleting := live.GetDeletionTimestamp() != nil && (live.GetDeletionGracePeriodSeconds() == nil || *live.GetDeletionGracePeriodSeconds() <= grace)
	if deleting && len(finalizers) == len(live.GetFinalizers()) {
		return nil
	}
	next := live.DeepCopyObject().(client.Object)
	next.SetFinalizers(finalizers)
	if !deleting {
		next.SetDeletionTimestamp(&metav1.Time{Time: s.now().Truncate(time.Second).Add(time.Duration(grace) * time.Second)})
		next.SetDeletionGracePeriodSeconds(&grace)
		if live.GetDeletionTimestamp() == nil && live.GetGeneration() > 0 {
			next.SetGeneration(live.GetGeneration() + 1)
		}
	}
	s.commit(kind, live, next)
	return nil
}

// with returns finalizers with one more, unless it is among them.
func with(finalizers []string, finalizer string) []string {
	if slices.Contains(finalizers, finalizer) {
		return finalizers
	}
	return append(slices.Clone(finalizers), finalizer)
}

// graceOf is how long an object has, in seconds: only a pod that runs on a node has any.
func graceOf(o client.Object, asked *int64) int64 {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	return ptr.Deref(asked, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
}

// Collect does what the garbage collector does: what an owner has that is gone is deleted, one that is deleted in the foreground goes once it owns
// nothing any more, and one that orphans what it owns goes once that is done.
func (s *Server) Collect() {
	all, exists := s.everything(), map[types.UID]bool{}
	for _, c := range all {
		exists[c.After.GetUID()] = true
	}
	for _, c := range all {
		owners := c.After.GetOwnerReferences()
		if len(owners) > 0 && !slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return exists[r.UID] }) && c.After.GetDeletionTimestamp() == nil {
			_ = s.remove(c.Kind, c.Key, client.DeleteOptions{}) // it is there
		}
		switch deleting := c.After.GetDeletionTimestamp() != nil; {
		case deleting && slices.Contains(c.After.GetFinalizers(), metav1.FinalizerOrphanDependents):
			s.orphan(c)
		case deleting && slices.Contains(c.After.GetFinalizers(), metav1.FinalizerDeleteDependents):
			s.collectDependents(c)
		}
	}
}

// collectDependents deletes what an object owns that is deleted in the foreground, and the object itself when that is gone.
func (s *Server) collectDependents(c Change) {
	dependents := s.dependents(c.After.GetUID())
	for _, d := range dependents {
		if d.After.GetDeletionTimestamp() == nil {
			_ = s.remove(d.Kind, d.Key, client.DeleteOptions{}) // it is there
		}
	}
	if len(dependents) == 0 && len(c.After.GetFinalizers()) == 1 {
		s.commit(c.Kind, c.After, nil)
	}
}

// everything returns all objects, as the changes that made them, by kind and name.
func (s *Server) everything() (all []Change) {
	for _, kind := range s.Kinds() {
		for _, o := range s.table.All(kind) {
			all = append(all, Change{Kind: kind, Key: client.ObjectKeyFromObject(o), After: o})
		}
	}
	return all
}

// dependents returns what an object owns.
func (s *Server) dependents(owner types.UID) []Change {
	return slices.DeleteFunc(s.everything(), func(c Change) bool {
		return !slices.ContainsFunc(c.After.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
	})
}

// orphan takes an object from what it owns as its owner, and lets it go.
func (s *Server) orphan(c Change) {
	owner := s.table.Find(c.Kind, c.Key)
	for _, d := range s.dependents(owner.GetUID()) {
		next := d.After.DeepCopyObject().(client.Object)
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() }))
		s.commit(d.Kind, d.After, next)
	}
	if len(owner.GetFinalizers()) == 1 {
		s.commit(c.Kind, owner, nil)
		return
	}
	next := owner.DeepCopyObject().(client.Object)
	next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerOrphanDependents }))
	s.commit(c.Kind, owner, next)
}

// evict deletes a pod if its PodDisruptionBudgets allow it.
func (s *Server) evict(key types.NamespacedName, e *policyv1.Eviction) error {
	pod := Find[*corev1.Pod](&s.table, key.Namespace, key.Name)
	if pod == nil {
		return apierrors.NewNotFound(resource("Pod"), key.Name)
	}
	for _, b := range Of[*policyv1.PodDisruptionBudget](&s.table) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == key.Namespace && selector.Matches(labels.Set(pod.Labels)) && !s.allows(b, selector, pod) {
			refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "the budget " + b.Name + " needs more healthy pods"}}
			return refused
		}
	}
	o := client.DeleteOptions{}
	if d := e.DeleteOptions; d != nil {
		o.Preconditions, o.GracePeriodSeconds, o.DryRun = d.Preconditions, d.GracePeriodSeconds, d.DryRun
	}
	return s.remove("Pod", key, o)
}

// allows reports whether a budget lets a pod be evicted: one that has not started, or ends, always, and one that is not ready if the others are enough.
func (s *Server) allows(b *policyv1.PodDisruptionBudget, selector labels.Selector, pod *corev1.Pod) bool {
	is, least := s.healthy(b.Namespace, selector), 0
	if b.Spec.MinAvailable != nil {
		least = b.Spec.MinAvailable.IntValue()
	}
	switch {
	case pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil:
		return true
	case !isReady(pod):
		return is >= least && least > 0 || ptr.Deref(b.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget) == policyv1.AlwaysAllow
	case b.Spec.MaxUnavailable != nil: // 0, as the operator has it
		return false
	}
	return is > least
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

func (s *Server) healthy(namespace string, selector labels.Selector) (n int) {
	for _, p := range Of[*corev1.Pod](&s.table) {
		if isReady(p) && p.Namespace == namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
			n++
		}
	}
	return n
}
