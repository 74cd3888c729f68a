// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// view is what the cache shows of the fleet.
type view struct {
	at       time.Time
	policies map[string]*fleet.Policy
	objects  []v1alpha1.EtcdFleetPolicy
	covering map[string][]string
	impaired []fleet.Impaired
	// waves are the namespaces' values of the label that a policy orders by.
	waves map[string]string
	// etcds are the Etcds that a policy or the default limits.
	etcds map[types.UID]*v1alpha1.Etcd
	// tasks are the tasks of these Etcds that need a slot and have not ended.
	tasks map[types.UID]*v1alpha1.EtcdOperatorTask
	// asked is since when tasks have waited with each change, by their statuses.
	asked map[string]time.Time
	// changing are the Etcds whose members change, or get other data, and the type of the task that does it.
	changing map[types.UID]v1alpha1.TaskType
}

// maxAge is how long a view is reused. The ledger is always the newest one.
const maxAge = time.Second

// needsSlot reports whether tasks of a type need a slot. Those of an unknown type do.
func needsSlot(t v1alpha1.TaskType) bool {
	switch t {
	case v1alpha1.OnDemandSnapshot, v1alpha1.OnDemandCompaction, v1alpha1.CopyBackups, v1alpha1.QuorumLossRecovery, v1alpha1.Restore, v1alpha1.MembershipChange:
		return false
	}
	return true
}

// automatic reports whether a task is a rollout that the operator created.
func automatic(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && t.Spec.Type.IsRollout()
}

// asks reports whether a task needs a slot. By default, only automatic rollouts do.
func (v *view) asks(t *v1alpha1.EtcdOperatorTask) bool {
	if v == nil {
		return false
	}
	covering := v.covering[t.Namespace]
	return len(covering) > 0 && needsSlot(t.Spec.Type) && (covering[0] != fleet.Default || automatic(t))
}

// decidesBy reports whether the view has this version of a policy, and applies it to a namespace.
func (v *view) decidesBy(p *v1alpha1.EtcdFleetPolicy, namespace string) bool {
	return v.knows(p) && slices.Contains(v.covering[namespace], p.Name)
}

// knows reports whether the view has this version of a policy.
func (v *view) knows(p *v1alpha1.EtcdFleetPolicy) bool {
	if v == nil {
		return false
	}
	known := v.policies[p.Name]
	return known != nil && known.UID == p.UID && known.Generation == p.Generation
}

// look returns what the cache shows; nil if there is no policy, and not even the default limits anything.
func (c *Controller) look(ctx context.Context) (*view, error) {
	defer c.looking.Lock()()
	now := c.Clock.Now()
	if v := c.known(now); v != nil {
		return v, nil
	}
	v := &view{
		at: now, policies: map[string]*fleet.Policy{}, covering: map[string][]string{}, waves: map[string]string{},
		etcds: map[types.UID]*v1alpha1.Etcd{}, tasks: map[types.UID]*v1alpha1.EtcdOperatorTask{}, changing: map[types.UID]v1alpha1.TaskType{}, asked: map[string]time.Time{},
	}
	list := &v1alpha1.EtcdFleetPolicyList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the policies of the fleet: %w", err)
	}
	v.objects = list.Items
	slices.SortFunc(v.objects, func(a, b v1alpha1.EtcdFleetPolicy) int { return strings.Compare(a.Name, b.Name) })
	etcds := &v1alpha1.EtcdList{}
	if err := c.Client.List(ctx, etcds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Etcds: %w", err)
	}
	if err := c.lookAtNamespaces(ctx, v); err != nil {
		return nil, err
	}
	v.limitTheRest(etcds)
	if len(v.policies) == 0 {
		v = nil
	} else {
		v.lookAtEtcds(etcds)
		if err := c.lookAtTasks(ctx, v); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.seenAt = v, now
	return v, nil
}

// known returns the last view, if it is recent; nil otherwise.
func (c *Controller) known(now time.Time) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.seenAt); age >= 0 && age < maxAge {
		return c.seen
	}
	return nil
}

// lookAtNamespaces determines which policies select which namespaces.
func (c *Controller) lookAtNamespaces(ctx context.Context, v *view) error {
	if len(v.objects) == 0 {
		return nil
	}
	namespaces := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the namespaces: %w", err)
	}
	for i := range v.objects {
		p := read(&v.objects[i])
		v.policies[p.Name] = p
		selector, err := metav1.LabelSelectorAsSelector(&v.objects[i].Spec.NamespaceSelector)
		if err != nil {
			// It is unknown which namespaces it was meant for.
			p.Invalid, selector = "spec.namespaceSelector: "+err.Error(), labels.Everything()
		}
		for j := range namespaces.Items {
			if n := &namespaces.Items[j]; c.worksIn(n.Name) && selector.Matches(labels.Set(n.Labels)) {
				v.covering[n.Name] = append(v.covering[n.Name], p.Name)
			}
		}
	}
	for i := range namespaces.Items {
		if n := &namespaces.Items[i]; v.orderBy(n.Name) != "" {
			v.waves[n.Name] = n.Labels[v.orderBy(n.Name)]
		}
	}
	return nil
}

// limitTheRest applies the default to the Etcds that no policy selects, unless there are too few for it to have an effect.
func (v *view) limitTheRest(etcds *v1alpha1.EtcdList) {
	n, rest := 0, map[string]bool{}
	for i := range etcds.Items {
		if namespace := etcds.Items[i].Namespace; len(v.covering[namespace]) == 0 {
			rest[namespace] = true
			n++
		}
	}
	if n <= defaultAtLeast {
		return
	}
	p := &fleet.Policy{Name: fleet.Default, MaxConcurrent: defaultPercent, Percent: true, AtLeast: defaultAtLeast}
	if len(rest) > 1 {
		p.PerNamespace, p.PerNamespacePercent = defaultShare, true
	}
	v.policies[fleet.Default] = p
	for namespace := range rest {
		v.covering[namespace] = []string{fleet.Default}
	}
}

// lookAtEtcds adds the Etcds that a policy selects: their number, canaries, and which lack a member.
func (v *view) lookAtEtcds(etcds *v1alpha1.EtcdList) {
	chosen := map[string]labels.Selector{}
	for i := range v.objects {
		o := &v.objects[i]
		// A selector that is absent chooses none.
		if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Canary.Selector); err != nil {
			v.policies[o.Name].Invalid = "spec.canary.selector: " + err.Error()
		} else {
			chosen[o.Name] = selector
		}
	}
	for i := range etcds.Items {
		e := &etcds.Items[i]
		names := v.covering[e.Namespace]
		if len(names) == 0 {
			continue
		}
		v.etcds[e.UID] = e
		if impaired := lacksMember(e); impaired != nil {
			v.impaired = append(v.impaired, *impaired)
		}
		for _, name := range names {
			p := v.policies[name]
			p.Clusters++
			if s := chosen[name]; s != nil && s.Matches(labels.Set(e.Labels)) {
				p.Canary.Chosen[e.UID] = true
			}
		}
	}
}

// orderBy returns spec.orderBy of the first policy of a namespace that has one; empty if none has.
func (v *view) orderBy(namespace string) string {
	for i := range v.objects {
		if key := v.objects[i].Spec.OrderBy; key != "" && slices.Contains(v.covering[namespace], v.objects[i].Name) {
			return key
		}
	}
	return ""
}

// lacksMember returns a cluster as impaired if it lacks a member, or if that is unknown; otherwise nil. A cluster without an ID and members
// in its status is new.
func lacksMember(e *v1alpha1.Etcd) *fleet.Impaired {
	all := e.Status.Conditions.Find(v1alpha1.ConditionAllMembersReady)
	if e.Spec.Replicas == 0 || all == nil || all.Status == metav1.ConditionTrue || e.Status.ClusterID == "" && len(e.Status.Members) == 0 {
		return nil
	}
	return &fleet.Impaired{Etcd: e.UID, Namespace: e.Namespace, Since: all.LastTransitionTime.Time}
}

// lookAtTasks adds the tasks that need a slot, and the clusters that are being changed or recovered.
func (c *Controller) lookAtTasks(ctx context.Context, v *view) error {
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.Client.List(ctx, tasks, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the tasks: %w", err)
	}
	for i := range tasks.Items {
		t := &tasks.Items[i]
		if len(v.covering[t.Namespace]) == 0 || t.Status.State.IsFinal() || t.DeletionTimestamp != nil {
			continue
		}
		etcd := etcdOf(t)
		if t.Status.State == v1alpha1.TaskStateInProgress && etcd != "" && (t.Spec.Type == v1alpha1.QuorumLossRecovery || replacesData(t)) {
			v.impaired = slices.DeleteFunc(v.impaired, func(i fleet.Impaired) bool { return i.Etcd == etcd })
			v.impaired = append(v.impaired, fleet.Impaired{Etcd: etcd, Namespace: t.Namespace, Since: ptr.Deref(t.Status.InitiatedAt, metav1.Time{}).Time, Recovering: true})
		}
		if changesMembers(t) && v.changing[etcd] != v1alpha1.Restore {
			v.changing[etcd] = t.Spec.Type
		}
		if v.asks(t) {
			v.tasks[t.UID] = t
			v.noteWait(t)
		}
	}
	return nil
}

// noteWait notes since when a task has waited with its change, by its status.
func (v *view) noteWait(t *v1alpha1.EtcdOperatorTask) {
	admitted := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAdmitted)
	if t.Status.Change == "" || runs(t) || admitted == nil || admitted.Status != metav1.ConditionFalse {
		return
	}
	if first, known := v.asked[t.Status.Change]; !known || admitted.LastTransitionTime.Time.Before(first) {
		v.asked[t.Status.Change] = admitted.LastTransitionTime.Time
	}
}

// changesMembers reports whether a task changes the members of its cluster at the moment, or stops them for a Restore.
func changesMembers(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Status.State == v1alpha1.TaskStateInProgress && (t.Spec.Type == v1alpha1.MembershipChange || replacesData(t))
}

// replacesData reports whether a task is a Restore whose preview was confirmed.
func replacesData(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Spec.Type == v1alpha1.Restore && t.Status.Recovery != nil
}

// etcdOf returns the UID of the Etcd that owns a task; empty if none does yet.
func etcdOf(t *v1alpha1.EtcdOperatorTask) types.UID {
	for _, o := range t.OwnerReferences {
		if etcdtasks.IsEtcd(o) && o.Name == t.Spec.OwnerEtcdReference.Name {
			return o.UID
		}
	}
	return ""
}

// worksIn reports whether the operator works in a namespace. Tasks in others are not its own to read, count or fence.
func (c *Controller) worksIn(namespace string) bool {
	return len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
}
