// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Adopter adopts the objects of Etcds from another operator.
type Adopter interface {
	// Reconcile carries out what the annotation of an Etcd requests, and otherwise returns the progress of its adoption. It returns
	// ErrBehind if it has changed something.
	Reconcile(ctx context.Context, s *State) (Adoption, error)
}

// Adoption is what the controller's packages need to know about the adoption of an Etcd.
type Adoption struct {
	// Condition Adopted; nil if nothing was adopted or refused.
	Condition *metav1.Condition
	// Frozen: nothing is applied.
	Frozen bool
	// Converting: pods of the other operator are being replaced.
	Converting bool
	// Contested names the Etcd if the other operator writes to it again; nil otherwise. Nothing is written then.
	Contested *ownership.Foreign
	// Refused: the request is refused for a reason that may pass without an event.
	Refused bool
}

// NoAdopter is the Adopter of an operator that is built without adoption. It leaves alone what was adopted earlier, since it does not know
// whether a change would replace pods of the other operator, nor whether that operator writes again.
type NoAdopter struct{}

// Reconcile implements Adopter.
func (NoAdopter) Reconcile(_ context.Context, s *State) (Adoption, error) {
	if s.Manager == "" {
		return Adoption{}, nil
	}
	c := conditions.False(v1alpha1.ConditionAdopted, v1alpha1.ReasonConversionRefused,
		"Nothing is applied: the objects were adopted from %s, and this operator is built without adoption.", s.Manager)
	return Adoption{Condition: &c, Frozen: true}, nil
}
