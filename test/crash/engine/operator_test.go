// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package engine kills the task engine at each of its writes, for every task type, and expects what an undisturbed run leads to. The cluster is
// that of test/inmemory, in a bubble of its own time. The operator is the task engine and, for recreations and recoveries, the controller
// of Etcds, which carries them out. test/crash/operator has all controllers at once, before a real API server.
package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

var mainKey = types.NamespacedName{Namespace: inmemory.Namespace, Name: inmemory.Name}

// operator is one operator, with all that it remembers. The whole one has the controller of Etcds, too.
type operator struct {
	*inmemory.Operator
	parts *composed.Operator
	whole bool
}

// newOperator starts an operator.
func newOperator(t *testing.T, w *inmemory.World, agent string, whole bool, decide func(disturb.Write) disturb.Fate) *operator {
	t.Helper()
	o := &operator{Operator: &inmemory.Operator{World: w, Decide: decide}, whole: whole}
	d := composition.With(o, clock.RealClock{})
	d.Client, d.Live, d.Surroundings, d.Agent = o.Client(), o.Live(), o.Client(), composition.AgentAt(agent)
	o.parts = composition.New(t, d)
	return o
}

// look has each controller look once. An error is what a killed operator and lost answers lead to: the workqueue retries.
func (o *operator) look(ctx context.Context) (err error) {
	if o.whole {
		_, err = o.parts.Etcds.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
		_, more := o.parts.Memberships.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
		err = errors.Join(err, more)
	}
	_, failed := o.parts.Tasks.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
	return errors.Join(err, failed)
}

func pause(d time.Duration) { <-time.After(d) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
