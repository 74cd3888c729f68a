// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package servertime gets the time from the API server. Timestamps of the API server are compared with that, never with the operator's
// clock (ADR 46).
package servertime

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Left returns how much of a span that began at a time of the API server is left; 0 or less if it is over. The operator's clock, now, only
// decides when to ask.
func Left(ctx context.Context, c client.Client, since time.Time, span time.Duration, now time.Time) (time.Duration, error) {
	if passed := now.Sub(since); passed >= 0 && passed < span {
		return span - passed, nil
	}
	now, err := Now(ctx, c)
	return span - now.Sub(since), err
}

// Written is when an object, or its subresource, was changed last, by the clock of the API server; zero if it does not say.
func Written(o metav1.Object, subresource string) time.Time {
	var last time.Time
	for _, f := range o.GetManagedFields() {
		if f.Subresource == subresource && f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

// Now returns the time by the clock of the API server. It stores nothing: a SelfSubjectReview is answered with its creation time. The
// answer is not cached as an offset: the operator's clock may be set, or the machine suspended, and removals rest on this time.
func Now(ctx context.Context, c client.Client) (time.Time, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); apierrors.IsForbidden(err) {
		return time.Time{}, fmt.Errorf("asking the API server for the time: %w. Kubernetes allows this to every user: restore its ClusterRoleBinding system:basic-user, or allow the operator's ServiceAccount to create selfsubjectreviews of group authentication.k8s.io by a ClusterRole", err)
	} else if err != nil {
		return time.Time{}, fmt.Errorf("asking the API server for the time: %w", err)
	}
	if review.CreationTimestamp.IsZero() {
		return time.Time{}, errors.New("the API server does not say what time it is")
	}
	return review.CreationTimestamp.Time, nil
}
