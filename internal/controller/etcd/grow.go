// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=delete

// maxMembers is the greatest number of members that an Etcd may have.
const maxMembers = 5

// reconcileVolumes lets volumes grow, and then replaces the StatefulSet by one whose claim template says so, where one
// would be made. It puts what the claims are like, and the condition VolumesGrown where it can tell, into the pass, and
// returns whether it has begun to replace the StatefulSet.
func (r *Reconciler) reconcileVolumes(ctx context.Context, p *pass) (replaced bool, err error) {
	if p.set == nil {
		return false, nil
	}
	claims, err := claimsOf(ctx, r.Client, p.etcd, membersOf(p.etcd, p.set))
	if err != nil {
		return false, err
	}
	v := volumes{wanted: p.etcd.Spec.Capacity(), template: templateCapacity(p.set)}
	for i := range claims {
		c, err := r.describeClaim(ctx, p.etcd, &claims[i])
		if err != nil {
			return false, err
		}
		if c.foreign != nil {
			p.foreignClaims = append(p.foreignClaims, *c.foreign)
		}
		v.claims = append(v.claims, c)
	}
	g := decideGrowth(v)
	p.claims, p.further = v.claims, append(p.further, g.condition)
	acts := len(g.grow) > 0 || g.replaceSet && p.makes()
	if specSuspended(p.etcd) || !acts {
		return false, nil
	}
	return r.grow(ctx, p, claims, g)
}

// grow carries out what was decided.
func (r *Reconciler) grow(ctx context.Context, p *pass, claims []corev1.PersistentVolumeClaim, g growth) (replaced bool, err error) {
	if g.replaceSet {
		if why, _, err := r.mayReplaceSet(ctx, r.Client, p.etcd); err != nil || why != "" {
			return false, err
		}
	}
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return false, err
	}
	if g.replaceSet {
		return r.replaceSet(ctx, p.etcd)
	}
	wanted := p.etcd.Spec.Capacity()
	for i := range claims {
		if slices.Contains(g.grow, claims[i].Name) {
			if err := r.growClaim(ctx, &claims[i], wanted.String()); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// membersOf is how many members a cluster has, or has had: the claims of so many ordinals may be its own.
func membersOf(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) int32 {
	return max(etcd.Status.ClusterSize, ptr.Deref(set.Spec.Replicas, 1))
}

// claimsOf are the claims under the names of so many members of an Etcd, by ordinal. They need not be the Etcd's own.
func claimsOf(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, members int32) ([]corev1.PersistentVolumeClaim, error) {
	var claims []corev1.PersistentVolumeClaim
	for i := range members {
		key := client.ObjectKey{Namespace: etcd.Namespace, Name: component.ClaimName(etcd, i)}
		c := corev1.PersistentVolumeClaim{}
		if err := reader.Get(ctx, key, &c); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading claim %s: %w", key, err)
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func (r *Reconciler) describeClaim(ctx context.Context, etcd *v1alpha1.Etcd, c *corev1.PersistentVolumeClaim) (claim, error) {
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
		if d.warning, err = r.claimWarning(ctx, client.ObjectKeyFromObject(etcd), c); err != nil {
			return d, err
		}
	}
	if d.class == "" {
		return d, nil
	}
	class := &storagev1.StorageClass{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: d.class}, class); client.IgnoreNotFound(err) != nil {
		return d, fmt.Errorf("reading StorageClass %s: %w", d.class, err)
	}
	d.expandable = ptr.Deref(class.AllowVolumeExpansion, false)
	return d, nil
}

func (r *Reconciler) growClaim(ctx context.Context, c *corev1.PersistentVolumeClaim, to string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"resources":{"requests":{"storage":%q}}}}`, c.UID, c.ResourceVersion, to)
	if err := r.Client.Patch(ctx, c, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("growing claim %s: %w", client.ObjectKeyFromObject(c), err)
	}
	ctrl.LoggerFrom(ctx).Info("A claim asks for more", "claim", client.ObjectKeyFromObject(c), "capacity", to)
	return nil
}

// replaceSet deletes the StatefulSet and leaves its pods and claims, for one with another claim template to adopt them.
// It does so when it may, by what the API server says, and while no task deletes a pod.
func (r *Reconciler) replaceSet(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	defer r.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	why, set, err := r.mayReplaceSet(ctx, r.APIReader, etcd)
	if err != nil || why != "" {
		return false, err
	}
	err = r.Client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion})
	if err != nil {
		return false, fmt.Errorf("replacing StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Took the StatefulSet away from its pods, for one with a greater claim template", "template", ptr.To(templateCapacity(set)).String())
	return true, nil
}

func (r *Reconciler) mayReplaceSet(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (why string, set *appsv1.StatefulSet, err error) {
	set, err = statefulSet(ctx, reader, etcd)
	if err != nil || set == nil || set.DeletionTimestamp != nil {
		return "it is gone", nil, err
	}
	snapshot, err := r.Observer.Observe(ctx, reader, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return "it is gone", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("observing Etcd %s before its StatefulSet is replaced: %w", client.ObjectKeyFromObject(etcd), err)
	}
	claims, err := claimsOf(ctx, reader, etcd, membersOf(etcd, set))
	if err != nil {
		return "", nil, err
	}
	for i := range claims {
		if f := ownership.OfClaim(etcd, &claims[i]); f != nil {
			return "no StatefulSet would be made with a claim that is not the Etcd's own: " + f.Name, nil, nil
		}
	}
	tasks, err := tasksOf(ctx, reader, etcd)
	if err != nil {
		return "", nil, err
	}
	return mayReplaceSet(snapshot, set, claims, tasks), set, nil
}
