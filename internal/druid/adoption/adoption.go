// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package adoption adopts the objects of an Etcd from etcd-druid, and hands them back, when an annotation asks for it
// (docs/adr/0031-adopt-and-then-convert.md). Adopting replaces no pod: it annotates the objects, and removes the finalizer of
// etcd-druid.
package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phase of an adoption.
type phase int

// The phases.
const (
	// notAdopted: nothing was adopted.
	notAdopted phase = iota
	// pending: the objects are adopted, and the pods are etcd-druid's. Nothing is applied.
	pending
	// converting: a rollout replaces the pods of etcd-druid, or is about to.
	converting
	// converted: no pod of etcd-druid is left.
	converted
	// contested: etcd-druid is back. Nothing is written.
	contested
)

// progress is what is known of the adoption of an Etcd.
type progress struct {
	phase phase
	// reason and why what was asked for is refused; both are empty if it is not.
	reason, why string
}

// refused returns the progress with why what was asked for is refused; as it is if why is empty.
func (v progress) refused(reason, why string) progress {
	if why != "" {
		v.reason, v.why = reason, why
	}
	return v
}

// adoption returns what the other parts of the controller need to know.
func (v progress) adoption(etcd *v1alpha1.Etcd) state.Adoption {
	if v == (progress{}) {
		return state.Adoption{}
	}
	condition := v.condition(etcd)
	a := state.Adoption{Condition: &condition, Frozen: v.frozen(), Converting: v.phase == converting, Refused: v.why != ""}
	if v.phase == contested {
		by := contender(etcd)
		a.Contested = &by
	}
	return a
}

// frozen reports whether nothing is applied.
func (v progress) frozen() bool { return v.phase == pending || v.phase == contested }

// Adopter adopts objects, and hands them back.
type Adopter struct {
	state.Access
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
	// QuorumAware is the feature gate QuorumAwareUpdatesWithOnDelete.
	QuorumAware bool
	// Enabled is the feature gate AdoptFromDruid.
	Enabled bool
}

// Reconcile implements state.Adopter.
func (a Adopter) Reconcile(ctx context.Context, s *state.State) (state.Adoption, error) {
	v, err := a.reconcile(ctx, s)
	return v.adoption(s.Etcd), err
}

func (a Adopter) reconcile(ctx context.Context, s *state.State) (progress, error) {
	view := a.view(s)
	switch s.Etcd.Annotations[v1alpha1.AnnotationOperation] {
	case v1alpha1.OperationAdopt:
		why, err := a.adopt(ctx, s.Etcd)
		return view.refused(v1alpha1.ReasonAdoptionRefused, why), err
	case v1alpha1.OperationHandBack:
		why, err := a.handBack(ctx, s.Etcd)
		return view.refused(v1alpha1.ReasonReturnRefused, why), err
	}
	if err := a.adoptClaims(ctx, s, view.phase); err != nil {
		return view, err
	}
	if view.phase != pending || !state.OperationRequested(s.Etcd) {
		return view, nil
	}
	f, err := a.gather(ctx, s.Etcd)
	if err != nil {
		return view, err
	}
	if why := a.convertible(s, f); why != "" {
		return view.refused(v1alpha1.ReasonConversionRefused, why), nil
	}
	return progress{phase: converting}, nil
}

// convertible returns why the first change is not applied; empty if it is.
func (a Adopter) convertible(s *state.State, f input) string {
	switch {
	case f.set == nil || f.set.UID != s.StatefulSet.UID || ownership.Manager(f.etcd, f.set) == "":
		return "the StatefulSet is not the adopted one any more"
	case isBack(f.etcd):
		return "etcd-druid has put its finalizer back"
	case f.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType:
		return "the update strategy is not OnDelete yet"
	}
	return refuseConversion(f)
}

// view says how far the adoption of an Etcd is.
func (a Adopter) view(s *state.State) progress {
	ofDruid := func(o cluster.Ordinal) bool { return o.Pod != nil && o.Pod.OfDruid }
	switch {
	case s.Manager == "":
		return progress{}
	case isBack(s.Etcd) && s.Etcd.Annotations[v1alpha1.AnnotationOperation] != v1alpha1.OperationAdopt:
		return progress{phase: contested}
	case s.StatefulSet == nil:
		return progress{phase: converted}
	case s.StatefulSet.Annotations[v1alpha1.AnnotationAppliedChecksum] == "":
		return progress{phase: pending}
	case s.Snapshot == nil || slices.ContainsFunc(s.Snapshot.Ordinals, ofDruid):
		return progress{phase: converting}
	}
	return progress{phase: converted}
}

// adopt adopts the objects of an Etcd, or returns why not. The StatefulSet comes last: until it is adopted, the others change
// nothing. What is interrupted is continued.
func (a Adopter) adopt(ctx context.Context, etcd *v1alpha1.Etcd) (why string, err error) {
	reads := a.Live()
	f, err := a.gather(ctx, etcd)
	if err != nil {
		return "", err
	}
	if f.etcd.Annotations[v1alpha1.AnnotationOperation] != v1alpha1.OperationAdopt {
		return "", state.ErrBehind
	}
	if why := refuseAdoption(f); why != "" {
		return why, nil
	}
	objects, err := a.objects(ctx, f)
	if err != nil {
		return "", err
	}
	// A task that is queued does not act while this is written.
	defer a.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	if err := reads.Fresh(ctx); err != nil {
		return "", err
	}
	for _, object := range objects {
		annotations := map[string]any{v1alpha1.AnnotationAdoptedBy: string(etcd.UID)}
		if object == client.Object(f.set) {
			// That of executor mode, which may have been there before, vouches for etcd-druid's writes.
			annotations[v1alpha1.AnnotationRolloutBy] = nil
			if f.set.Annotations[v1alpha1.AnnotationAdoptedBy] != string(etcd.UID) {
				annotations[v1alpha1.AnnotationAdoptedVersion] = f.newestEtcd()
			}
		}
		if err := a.annotate(ctx, object, annotations, withoutDruid(object)); err != nil {
			return "", err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Adopted the objects from etcd-druid", "objects", len(objects))
	return "", a.finish(ctx, f.etcd, withoutDruid(f.etcd))
}

// handBack hands the objects of an Etcd back, or returns why not. The StatefulSet comes last: what is interrupted is continued.
func (a Adopter) handBack(ctx context.Context, etcd *v1alpha1.Etcd) (why string, err error) {
	reads := a.Live()
	f, err := a.gather(ctx, etcd)
	if err != nil {
		return "", err
	}
	if f.etcd.Annotations[v1alpha1.AnnotationOperation] != v1alpha1.OperationHandBack {
		return "", state.ErrBehind
	}
	if f.set != nil && f.set.Annotations[v1alpha1.AnnotationAdoptedBy] == "" && ownership.Adoptable(etcd, f.set) {
		// It was handed back.
		return "", a.finish(ctx, f.etcd, map[string]any{})
	}
	if f.set == nil || ownership.Manager(etcd, f.set) == "" {
		return "the Etcd was not adopted from etcd-druid: remove the annotation " + v1alpha1.AnnotationOperation, nil
	}
	defer a.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	tasks, err := etcdtasks.List(ctx, a.API, etcd)
	if err != nil {
		return "", err
	}
	if why := refuseReturn(f, tasks); why != "" {
		return why, nil
	}
	objects, err := a.objects(ctx, f)
	if err != nil {
		return "", err
	}
	if err := reads.Fresh(ctx); err != nil {
		return "", err
	}
	for _, object := range objects {
		more := map[string]any{}
		if object == client.Object(f.set) {
			// As etcd-druid writes it, and without what it does not know: no pod is outdated, so none is replaced.
			more["spec"] = map[string]any{
				"updateStrategy":                       map[string]any{"type": appsv1.RollingUpdateStatefulSetStrategyType, "rollingUpdate": map[string]any{"partition": 0}},
				"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": appsv1.RetainPersistentVolumeClaimRetentionPolicyType, "whenScaled": appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
			}
		}
		annotations := map[string]any{v1alpha1.AnnotationAdoptedBy: nil, v1alpha1.AnnotationAppliedChecksum: nil, v1alpha1.AnnotationAdoptedVersion: nil}
		if err := a.annotate(ctx, object, annotations, more); err != nil {
			return "", err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Handed the objects back to etcd-druid", "objects", len(objects))
	return "", a.finish(ctx, f.etcd, map[string]any{})
}

// gather reads all that a decision rests on from the API server, and asks the members.
func (a Adopter) gather(ctx context.Context, cached *v1alpha1.Etcd) (input, error) {
	etcd, err := a.Live().Etcd(ctx, cached)
	if err != nil {
		return input{}, err
	}
	f := input{etcd: etcd, onDelete: a.QuorumAware, enabled: a.Enabled, now: a.Clock.Now(), images: component.Input{Etcd: etcd, Images: a.Images}.Containers()}
	set := &appsv1.StatefulSet{}
	if err := a.API.Get(ctx, client.ObjectKeyFromObject(etcd), set); apierrors.IsNotFound(err) {
		return f, nil
	} else if err != nil {
		return input{}, fmt.Errorf("reading StatefulSet %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	f.set = set
	f.peerTLS = observe.PeerTLS(set.Spec.Template.ObjectMeta, set.Spec.Template.Spec) == v1alpha1.TLSOn
	if foreign := ownership.Of(etcd, "StatefulSet", set); foreign != nil && !ownership.Adoptable(etcd, set) {
		f.foreign = append(f.foreign, *foreign)
		return f, nil
	}
	if _, err := a.read(ctx, &f); err != nil {
		return input{}, err
	}
	if f.snapshot, err = a.Observe(ctx, a.API, etcd); errors.Is(err, observe.ErrTooManyReplicas) {
		return f, nil
	}
	return f, err
}

// objects returns the objects that exist of those that the Etcd needs, the StatefulSet last.
func (a Adopter) objects(ctx context.Context, f input) ([]client.Object, error) {
	return a.read(ctx, &f)
}

// read reads the objects that the Etcd needs, with those of etcd-druid among them, and the claims of its members; the foreign ones
// it adds to the input.
func (a Adopter) read(ctx context.Context, f *input) ([]client.Object, error) {
	var all []client.Object
	f.foreign = nil
	members := ptr.Deref(f.set.Spec.Replicas, 1)
	for _, key := range component.Keys(f.etcd, members, v1alpha1.ManagedByDruid) {
		if key == component.StatefulSetKey(f.etcd) {
			continue
		}
		object, err := a.get(ctx, f.etcd, key)
		if err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		if foreign := ownership.Of(f.etcd, key.Kind.Kind, object); foreign != nil && !ownership.Adoptable(f.etcd, object) {
			f.foreign = append(f.foreign, *foreign)
		} else if key.Kind.Group != rbacv1.GroupName || foreign == nil {
			// A Role, and its binding, that the operator did not write has rights that it may not give.
			all = append(all, object)
		}
	}
	for i := range members {
		key := component.Key{Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Name: f.etcd.ClaimName(i)}
		claim, err := a.get(ctx, f.etcd, key)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue
		}
		foreign := ownership.OfClaim(f.etcd, claim)
		if foreign != nil && !madeFor(f.set, claim) {
			f.foreign = append(f.foreign, *foreign)
			continue
		}
		all = append(all, claim)
	}
	return append(all, f.set), nil
}

// adoptClaims adopts the claims that the StatefulSet controller has made since the adoption, such as when the cluster grew.
func (a Adopter) adoptClaims(ctx context.Context, s *state.State, phase phase) error {
	if s.StatefulSet == nil || phase == notAdopted || phase == contested {
		return nil
	}
	for i := range s.Claims {
		claim := &s.Claims[i]
		if ownership.OfClaim(s.Etcd, claim) == nil || !madeSince(s.StatefulSet, claim) {
			continue
		}
		if err := a.annotate(ctx, claim, map[string]any{v1alpha1.AnnotationAdoptedBy: string(s.Etcd.UID)}, map[string]any{}); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Adopted a claim of the adopted StatefulSet", "claim", claim.Name)
	}
	return nil
}

// madeSince reports whether the StatefulSet controller has made a claim since there is a StatefulSet. An older one may have the data
// of another cluster.
func madeSince(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	return madeFor(set, claim) && !claim.CreationTimestamp.Before(&set.CreationTimestamp)
}

// madeFor reports whether the StatefulSet controller has made a claim: it has the labels of the selector, and nobody owns it.
func madeFor(set *appsv1.StatefulSet, claim client.Object) bool {
	return set.Spec.Selector != nil && maps.Equal(claim.GetLabels(), set.Spec.Selector.MatchLabels) && len(claim.GetOwnerReferences()) == 0
}

func (a Adopter) get(ctx context.Context, etcd *v1alpha1.Etcd, key component.Key) (client.Object, error) {
	typed, err := a.Client.Scheme().New(key.Kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", key.Kind.Kind, err)
	}
	object, at := typed.(client.Object), types.NamespacedName{Namespace: etcd.Namespace, Name: key.Name}
	if err := a.API.Get(ctx, at, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", key.Kind.Kind, at, err)
	}
	return object, nil
}

// withoutDruid is a patch that removes the finalizer of etcd-druid.
func withoutDruid(object client.Object) map[string]any {
	if !isBack(object) {
		return map[string]any{}
	}
	kept := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == v1alpha1.FinalizerDruid })
	return map[string]any{"metadata": map[string]any{"finalizers": kept}}
}

// annotate sets and removes annotations of an object as it was read, with more of a merge patch.
func (a Adopter) annotate(ctx context.Context, object client.Object, annotations, more map[string]any) error {
	metadata, ok := more["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"], metadata["annotations"] = object.GetUID(), object.GetResourceVersion(), annotations
	more["metadata"] = metadata
	patch, err := json.Marshal(more)
	if err != nil {
		return fmt.Errorf("encoding the adoption of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	if err := a.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), apply.Manager); err != nil {
		return fmt.Errorf("annotating %s %s: %w", a.kindOf(object), client.ObjectKeyFromObject(object), err)
	}
	return nil
}

func (a Adopter) kindOf(object runtime.Object) string {
	if kinds, _, err := a.Client.Scheme().ObjectKinds(object); err == nil {
		return kinds[0].Kind
	}
	return fmt.Sprintf("%T", object)
}

// finish removes the annotation that asked for it, with more of a merge patch, and returns state.ErrBehind.
func (a Adopter) finish(ctx context.Context, etcd *v1alpha1.Etcd, more map[string]any) error {
	if err := a.annotate(ctx, etcd, map[string]any{v1alpha1.AnnotationOperation: nil}, more); err != nil {
		return err
	}
	return state.ErrBehind
}
