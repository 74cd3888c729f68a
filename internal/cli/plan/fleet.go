// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policiesOf returns the policies of the fleet that select the namespace, as far as the user may read policies and the namespace.
func policiesOf(ctx context.Context, cluster *kube.Cluster) ([]v1alpha1.EtcdFleetPolicy, error) {
	list := &v1alpha1.EtcdFleetPolicyList{}
	if err := cluster.List(ctx, list); apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing EtcdFleetPolicies: %w", err)
	}
	namespace := &corev1.Namespace{}
	unread := cluster.Get(ctx, client.ObjectKey{Name: cluster.Namespace}, namespace)
	if unread != nil && !apierrors.IsForbidden(unread) {
		return nil, fmt.Errorf("reading namespace %s: %w", cluster.Namespace, unread)
	}
	return slices.DeleteFunc(list.Items, func(p v1alpha1.EtcdFleetPolicy) bool {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NamespaceSelector)
		return err != nil || !selector.Empty() && (unread != nil || !selector.Matches(labels.Set(namespace.Labels)))
	}), nil
}

// waits returns what the rollout waits for beside its guards, as its task says. If there is none, or it has not asked yet, it returns what
// policies of the fleet say of tasks that ask.
func (p *result) waits(now time.Time) (say []string) {
	if t := p.task; t != nil {
		progressing, admitted := t.Status.Progressing(), meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAdmitted)
		switch {
		case t.Spec.Suspend:
			return nil
		case admitted != nil && admitted.Status == metav1.ConditionFalse:
			return []string{waitsBy(admitted)}
		case t.Status.State == v1alpha1.TaskStateInProgress && progressing.Reason == v1alpha1.ReasonWaitingForWindow:
			return []string{waitsBy(&progressing)}
		case t.Status.State == v1alpha1.TaskStateInProgress || t.Annotations[v1alpha1.AnnotationBypassFleet] == "true":
			return nil
		}
	}
	if len(p.Entries) == 0 {
		return nil
	}
	for i := range p.policies {
		say = append(say, p.foreseeWait(&p.policies[i], now))
	}
	return say
}

func waitsBy(c *metav1.Condition) string { return sentence("It waits (%s): %s", c.Reason, c.Message) }

// foreseeWait says whether the rollout will wait for a policy, or may, and why, as far as its spec and status show. They do not show whether
// the change of the rollout has passed canaries.
func (p *result) foreseeWait(policy *v1alpha1.EtcdFleetPolicy, now time.Time) string {
	s := &policy.Status
	paused := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)
	failed := paused != nil && paused.Reason == v1alpha1.ReasonChangeFailed
	switch {
	case paused != nil && !failed:
		return sentence("It will wait for EtcdFleetPolicy %s, by which nothing starts: %s", policy.Name, paused.Message)
	case policy.Spec.Paused:
		return sentence("It will wait for EtcdFleetPolicy %s, by which nothing starts: spec.paused is set", policy.Name)
	case s.ObservedGeneration == 0:
		return sentence("No operator has seen EtcdFleetPolicy %s yet", policy.Name)
	}
	will := "may"
	var why []string
	if s.NextWindow != nil && s.NextWindow.After(now) {
		will, why = "will", append(why, "no window is open, and the next one opens at "+s.NextWindow.UTC().Format(time.RFC3339))
	}
	if message := p.pausing(s); message != "" {
		will, why = "will", append(why, message)
	} else if failed {
		why = append(why, fmt.Sprintf("a change that failed is paused, which \"kubectl etcdtask fleet %s\" shows", policy.Name))
	}
	slots := fmt.Sprintf("%d of %d slots are in use", s.Used, s.Limit)
	switch s.Waiting {
	case 0:
	case 1:
		slots += ", and 1 task waits"
	default:
		slots += fmt.Sprintf(", and %d tasks wait", s.Waiting)
	}
	if s.Used >= s.Limit && !p.mayUseSlot(s) {
		will = "will"
	}
	if why = append(why, slots); ptr.Deref(policy.Spec.Canary.Count, 1) > 0 {
		why = append(why, fmt.Sprintf("a change that is new is tried in %d of the Etcds first", ptr.Deref(policy.Spec.Canary.Count, 1)))
	}
	return sentence("It %s wait for EtcdFleetPolicy %s: %s", will, policy.Name, strings.Join(why, "; "))
}

// pausing says why the change that the task has asked for is paused; empty if it is not, or not known.
func (p *result) pausing(s *v1alpha1.EtcdFleetPolicyStatus) string {
	if p.task == nil {
		return ""
	}
	for i := range s.Changes {
		if c := &s.Changes[i]; c.Change == p.task.Status.Change {
			return c.Paused
		}
	}
	return ""
}

// maxHolders is how many holders a status lists.
const maxHolders = 100

// mayUseSlot reports whether the Etcd may use one of the slots already: it holds one, as far as these are listed, or lacks a member.
func (p *result) mayUseSlot(s *v1alpha1.EtcdFleetPolicyStatus) bool {
	return len(s.Holders) >= maxHolders || !p.etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady) || slices.ContainsFunc(s.Holders, func(h v1alpha1.FleetHolder) bool {
		return h.Namespace == p.etcd.Namespace && h.Etcd == p.etcd.Name
	})
}

// sentence ends what it formats with one full stop.
func sentence(format string, args ...any) string {
	return strings.TrimSuffix(fmt.Sprintf(format, args...), ".") + "."
}
