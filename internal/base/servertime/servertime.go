// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package servertime asks the API server what time it is. Its timestamps are compared with that, and never with the operator's clock
// (ADR 46).
package servertime

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Now returns the time by the clock of the API server. It stores nothing: a review of who asks is answered with the time of the answer.
func Now(ctx context.Context, c client.Client) (time.Time, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return time.Time{}, fmt.Errorf("asking the API server for the time: %w", err)
	}
	if review.CreationTimestamp.IsZero() {
		return time.Time{}, errors.New("the API server does not say what time it is")
	}
	return review.CreationTimestamp.Time, nil
}
