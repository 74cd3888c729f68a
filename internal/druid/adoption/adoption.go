// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package adoption adopts the objects of an Etcd from etcd-druid, and hands them back, when an annotation asks for it
// (docs/adr/0031-adopt-and-then-convert.md). Adopting replaces no pod: it annotates the objects, and removes the finalizer of
// etcd-druid.
package adoption

import (
	"context"
	"slices"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// reason and why of a refused request; both are empty if none is refused.
	reason, why string
}

// refused adds why the requested operation is refused; an empty why adds nothing.
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
		a.Contested = ownership.Contested(etcd)
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
	if f.now, err = servertime.Now(ctx, a.Client); err != nil {
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
	case ownership.DruidIsBack(f.etcd):
		return "etcd-druid has put its finalizer back"
	case f.set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType:
		return "the update strategy is not OnDelete yet"
	}
	return first(f, active, refuseConversion)
}

// view returns how far the adoption of an Etcd is.
func (a Adopter) view(s *state.State) progress {
	ofDruid := func(o cluster.Ordinal) bool { return o.Pod != nil && o.Pod.OfDruid }
	switch {
	case s.Manager == "":
		return progress{}
	case ownership.DruidIsBack(s.Etcd):
		// Until it has gone, also if it is to be adopted again, which may be refused.
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

// condition returns the condition Adopted.
func (v progress) condition(etcd *v1alpha1.Etcd) metav1.Condition {
	t := v1alpha1.ConditionAdopted
	switch {
	case v.reason == v1alpha1.ReasonConversionRefused:
		return conditions.True(t, v.reason, "The pods are etcd-druid's, and stay for now: %s.", v.why)
	case v.reason == v1alpha1.ReasonReturnRefused:
		return conditions.False(t, v.reason, "Nothing was handed back: %s.", v.why)
	case v.reason == v1alpha1.ReasonAdoptionRefused:
		return conditions.False(t, v.reason, "Nothing was adopted: %s.", v.why)
	case v.phase == contested:
		return conditions.False(t, v1alpha1.ReasonDruidActive, "%s.", ownership.Contested(etcd))
	case v.phase == converting:
		return conditions.True(t, v1alpha1.ReasonConverting, "The pods of etcd-druid are being replaced.")
	case v.phase == converted:
		return conditions.True(t, v1alpha1.ReasonConverted, "No pod of etcd-druid is left.")
	}
	return conditions.True(t, v1alpha1.ReasonConversionPending, "The pods are etcd-druid's. Nothing is applied until asked for: kubectl -n %s annotate etcd %s %s=%s.",
		etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile)
}
