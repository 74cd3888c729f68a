// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecheckObstacle is how often a task that waits because of an Obstacle looks again: it costs as many requests as the Etcd has objects.
const RecheckObstacle = apply.RecheckForeign

// Obstacle returns why the Etcd controller does not scale the StatefulSet of an Etcd for a task: foreign objects, by live reads, with their
// owners and what to do. It is empty if there are none. A task that stops all members asks before it does, and also while it waits.
func Obstacle(ctx context.Context, c client.Client, live client.Reader, etcd *v1alpha1.Etcd, stops bool) (string, error) {
	foreign, err := apply.Writer{Client: c, Live: live}.Foreign(ctx, etcd, stops)
	if err != nil {
		return "", coded.Error(v1alpha1.ErrObserve, err)
	}
	said := ownership.Sentences(foreign)
	if owned := etcd.Status.Conditions.Find(v1alpha1.ConditionObjectsOwned); said == "" && owned != nil && owned.Reason == v1alpha1.ReasonDruidActive {
		said = owned.Message // the controller alone judges what etcd-druid does
	}
	if said == "" {
		return "", nil
	}
	return strings.TrimSuffix(said, ".") + ". While this is so, the operator stops and starts no member of the Etcd", nil
}
