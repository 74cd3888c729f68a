// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package volumes grows the volumes of an Etcd, prepares their move to another StorageClass, and reports why members do not get their
// volumes.
package volumes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=delete

// Grower grows volumes.
type Grower struct {
	state.Access

	// warnings holds the warnings of claims that wait for their volumes, by the UIDs of the claims.
	warnings memory.PerEtcd[map[types.UID]warning]
}

// Forget forgets an Etcd that is gone.
func (g *Grower) Forget(etcd types.NamespacedName) { g.warnings.Forget(etcd) }

// View is what is known of the volumes of an Etcd.
type View struct {
	claims []claim
	growth growth
	// moved is the condition VolumesMoved; nil if there is nothing to move.
	moved *metav1.Condition
}

// Foreign returns the claims in use that are not the Etcd's own. A nil View has none.
func (v *View) Foreign() (foreign []ownership.Foreign) {
	if v == nil {
		return nil
	}
	for _, c := range v.claims {
		if c.foreign != nil {
			foreign = append(foreign, *c.foreign)
		}
	}
	return foreign
}

// Grown returns the condition VolumesGrown.
func (v *View) Grown() metav1.Condition { return v.growth.condition }

// Moved returns the condition VolumesMoved; nil if there is nothing to move. A nil View has none.
func (v *View) Moved() *metav1.Condition {
	if v == nil {
		return nil
	}
	return v.moved
}

// Permission is what a Grower may do.
type Permission struct {
	// Grow claims.
	Grow bool
	// Replace the StatefulSet: a new one may be created.
	Replace bool
}

// Reconcile grows volumes, and then replaces the StatefulSet with one whose claim template has the new size and StorageClass. It returns
// state.ErrBehind after it has begun the replacement. The View is nil without a StatefulSet, or if the claims could not be read.
func (g *Grower) Reconcile(ctx context.Context, s *state.State, objects *apply.Session, may Permission) (*View, error) {
	if s.StatefulSet == nil {
		return nil, nil
	}
	v := volumes{wanted: s.Etcd.Spec.Capacity(), template: TemplateCapacity(s.StatefulSet), retyped: retyped(s.Etcd, s.StatefulSet)}
	misplaced, moves := Misplaced(s), false
	for i := range s.Claims {
		c, err := g.describe(ctx, s.Etcd, &s.Claims[i])
		if err != nil {
			return nil, err
		}
		c.keeper = etcdtasks.KeeperOf(s.Tasks, &s.Claims[i])
		c.moves = slices.Contains(misplaced, c.name) || state.Due(s.Etcd) && outgrown(s.Etcd, c, v.wanted)
		moves = moves || c.moves
		v.claims = append(v.claims, c)
	}
	view := &View{claims: v.claims, growth: decide(v), moved: moved(s.Etcd.Spec.Class(), v)}
	if moves && !s.Etcd.Moves() {
		// The status has to say so first, so that certificates and the Role also cover a further member.
		may.Replace = false
	}
	if len(view.growth.grow) > 0 && may.Grow || view.growth.replaceSet && may.Replace {
		return view, g.grow(ctx, s, objects, view.growth)
	}
	return view, nil
}

// grow carries out what was decided.
func (g *Grower) grow(ctx context.Context, s *state.State, objects *apply.Session, d growth) error {
	if d.replaceSet && mayReplace(s.Snapshot, s.StatefulSet, s.Etcd, s.Claims, s.Tasks) != "" {
		return nil
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	if d.replaceSet {
		return g.replaceSet(ctx, s.Etcd)
	}
	wanted := s.Etcd.Spec.Capacity()
	for i := range s.Claims {
		if slices.Contains(d.grow, s.Claims[i].Name) {
			if err := g.growClaim(ctx, s.Claims[i].DeepCopy(), wanted.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Grower) growClaim(ctx context.Context, c *corev1.PersistentVolumeClaim, to string) error {
	patch := asread.Merge(map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": to}}}})
	if err := g.Client.Patch(ctx, c, patch, apply.Manager); err != nil {
		return fmt.Errorf("growing claim %s: %w", client.ObjectKeyFromObject(c), err)
	}
	ctrl.LoggerFrom(ctx).Info("A claim requests more storage", "claim", client.ObjectKeyFromObject(c), "capacity", to)
	return nil
}

// replaceSet deletes the StatefulSet but orphans its pods and claims, which one with another claim template adopts. It decides on live
// reads, while no task deletes a pod.
func (g *Grower) replaceSet(ctx context.Context, etcd *v1alpha1.Etcd) error {
	defer g.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	reads := g.Live()
	etcd, err := reads.Etcd(ctx, etcd)
	if err != nil {
		return err
	}
	if etcd.SpecSuspended() {
		return state.Behind(ctx, "the spec of Etcd %s is suspended: no other StatefulSet would be created", client.ObjectKeyFromObject(etcd))
	}
	set, pods, err := g.replaceable(ctx, etcd)
	if err != nil || set == nil {
		return err
	}
	if err := g.own(ctx, etcd, pods); err != nil {
		return err
	}
	if err := reads.Fresh(ctx); err != nil {
		return err
	}
	err = g.Client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
	if err != nil {
		return fmt.Errorf("replacing StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Orphaned the pods of the StatefulSet, for one with another claim template", "capacity", ptr.To(TemplateCapacity(set)).String(), "class", TemplateClass(set))
	return state.ErrBehind
}

// own makes the Etcd an owner of its pods beside their StatefulSet. Otherwise they would run on if the Etcd were deleted before the next
// StatefulSet has adopted them. An admission policy of an earlier version forbids this; the StatefulSet is then replaced without it.
func (g *Grower) own(ctx context.Context, etcd *v1alpha1.Etcd, pods *cluster.Snapshot) error {
	for _, o := range pods.Ordinals {
		if o.Pod == nil {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: o.Name}}
		// Owners are merged by UID, so an existing one stays unchanged.
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.Pod.UID, "ownerReferences": []metav1.OwnerReference{etcdtasks.Owner(etcd)}}})
		if err != nil {
			return fmt.Errorf("encoding the owner of pod %s: %w", client.ObjectKeyFromObject(pod), err)
		}
		err = g.Client.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))
		if coded.Refused(err) {
			ctrl.LoggerFrom(ctx).Error(err, "An Etcd that is deleted now leaves its pods running", "pod", client.ObjectKeyFromObject(pod))
			return nil
		}
		if err != nil {
			return fmt.Errorf("making Etcd %s an owner of pod %s: %w", etcd.Name, client.ObjectKeyFromObject(pod), err)
		}
	}
	return nil
}

// replaceable reads the StatefulSet and its pods from the API server; nil if it must not be replaced now.
func (g *Grower) replaceable(ctx context.Context, etcd *v1alpha1.Etcd) (*appsv1.StatefulSet, *cluster.Snapshot, error) {
	set, err := state.StatefulSet(ctx, g.API, etcd)
	if err != nil || set == nil || set.DeletionTimestamp != nil {
		return nil, nil, err
	}
	snapshot, err := g.Observe(ctx, g.API, etcd)
	if err != nil || snapshot == nil {
		return nil, nil, err
	}
	claims, err := state.Claims(ctx, g.API, etcd, state.Members(etcd, set))
	if err != nil {
		return nil, nil, err
	}
	tasks, err := etcdtasks.List(ctx, g.API, etcd)
	if err != nil || mayReplace(snapshot, set, etcd, claims, tasks) != "" {
		return nil, nil, err
	}
	return set, snapshot, nil
}

func (g *Grower) describe(ctx context.Context, etcd *v1alpha1.Etcd, c *corev1.PersistentVolumeClaim) (claim, error) {
	d := claim{
		name: c.Name, foreign: ownership.OfClaim(etcd, c), bound: c.Status.Phase == corev1.ClaimBound, lost: c.Status.Phase == corev1.ClaimLost, class: ptr.Deref(c.Spec.StorageClassName, ""),
		asks: c.Spec.Resources.Requests[corev1.ResourceStorage], has: c.Status.Capacity[corev1.ResourceStorage],
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending && condition.Status == corev1.ConditionTrue {
			d.waitsForRestart = true
		}
	}
	if c.Status.Phase == corev1.ClaimPending {
		var err error
		if d.warning, err = g.warningOf(ctx, etcd, c); err != nil {
			return d, err
		}
	}
	if d.class == "" {
		return d, nil
	}
	class, err := lookup.Get[storagev1.StorageClass](ctx, g.Client, "StorageClass", client.ObjectKey{Name: d.class})
	if err != nil || class == nil {
		return d, err
	}
	d.expandable = ptr.Deref(class.AllowVolumeExpansion, false)
	d.fixed = !d.expandable
	return d, nil
}

// maxEvents bounds how many events of a claim are read. There are few: the API server deletes them after an hour.
const maxEvents = 100

// recheckWarning is how long a warning is valid: a claim may wait for days, and the API server is not queried each time.
const recheckWarning = 10 * time.Second

// warning is the result of reading the events of a claim.
type warning struct {
	at   time.Time
	text string
}

// warningOf returns the newest warning of a claim that waits for its volume; empty if there is none.
func (g *Grower) warningOf(ctx context.Context, etcd *v1alpha1.Etcd, c *corev1.PersistentVolumeClaim) (string, error) {
	now, known := g.Clock.Now(), g.warnings.Of(etcd)
	if w, ok := known[c.UID]; ok && now.Sub(w.at) < recheckWarning {
		return w.text, nil
	}
	events := &corev1.EventList{}
	err := g.API.List(ctx, events, client.InNamespace(c.Namespace), client.Limit(maxEvents),
		client.MatchingFields{"involvedObject.uid": string(c.UID), "type": corev1.EventTypeWarning})
	if err != nil {
		return "", fmt.Errorf("listing the events of claim %s: %w", client.ObjectKeyFromObject(c), err)
	}
	w := warning{at: now, text: newestWarning(events.Items)}
	g.warnings.Set(etcd, memory.With(known, c.UID, w))
	return w.text, nil
}
