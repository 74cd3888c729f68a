// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package crash kills the operator at each of its writes, for every task type, and expects what an undisturbed run leads to. The cluster is
// that of test/inmemory, in a bubble of its own time. The operator is the task engine and, for recreations and recoveries, the controller
// of Etcds, which carries them out. test/integration/crash has all controllers at once, before a real API server.
package crash

import (
	"context"
	"errors"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/compaction"
	"github.com/etcd-foreman/etcd-foreman/tasks/copybackups"
	"github.com/etcd-foreman/etcd-foreman/tasks/maintenance"
	"github.com/etcd-foreman/etcd-foreman/tasks/recovery"
	"github.com/etcd-foreman/etcd-foreman/tasks/recreate"
	quorumaware "github.com/etcd-foreman/etcd-foreman/tasks/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks/snapshot"
	"github.com/etcd-foreman/etcd-foreman/test/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

var mainKey = types.NamespacedName{Namespace: inmemory.Namespace, Name: inmemory.Name}

// operator is one operator: the task engine, with all that it remembers, and the controller of Etcds, if it takes part.
type operator struct {
	*inmemory.Operator
	engine *engine.Reconciler
	etcds  *etcd.Reconciler
}

// silent drops events: none of them is decided on.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

var _ events.EventRecorder = silent{}

// newOperator starts an operator. The whole one has the controller of Etcds too.
func newOperator(w *inmemory.World, agent string, whole bool, decide func(disturb.Write) disturb.Fate) *operator {
	o := &operator{Operator: &inmemory.Operator{World: w, Decide: decide}}
	cached, live, now := o.Client(), o.Live(), clock.RealClock{}
	observer, locker := observe.New(o, now), &lock.Locks{}
	jobs := tasks.Jobs{Client: cached, Live: live, Clock: now}
	agents := func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
		return api.Client{BaseURL: agent}, nil
	}
	const image = "localhost/agent:v1"
	registry := tasks.Registry{
		v1alpha1.QuorumAwareRollout:  {Handler: &quorumaware.Handler{Client: cached, Live: live, Observer: observer, Dialer: o, Clock: now, Agent: agents}},
		v1alpha1.OnDemandMaintenance: {Deadline: maintenance.Deadline, Handler: &maintenance.Handler{Live: live, Observer: observer, Dialer: o}},
		v1alpha1.OnDemandSnapshot:    {Deadline: snapshot.Deadline, Handler: &snapshot.Handler{Live: live, Observer: observer, Clock: now, Agent: agents}},
		v1alpha1.OnDemandCompaction:  {Deadline: compaction.Deadline, Handler: &compaction.Handler{Jobs: jobs, Image: image}},
		v1alpha1.CopyBackups:         {Deadline: copybackups.Deadline, Handler: &copybackups.Handler{Jobs: jobs, Image: image}},
		v1alpha1.RecreateRollout:     {Handler: &recreate.Handler{Client: cached, Live: live, Observer: observer, Clock: now}},
		v1alpha1.QuorumLossRecovery:  {Deadline: recovery.Deadline, Handler: &recovery.Handler{Client: cached, Live: live, Observer: observer, Clock: now, Image: image}},
	}
	if whole {
		o.etcds = &etcd.Reconciler{
			Client: cached, APIReader: live, Observer: observer, Locker: locker, Clock: now, Dialer: o, Recorder: silent{},
			Images: configv1alpha1.Images{Etcd: "localhost/etcd:v1", EtcdAgent: image}, QuorumAwareUpdates: true,
		}
	}
	o.engine = &engine.Reconciler{
		Client: cached, Live: live, Registry: registry, Locker: locker, Recorder: silent{}, Metrics: engine.NewMetrics(prometheus.NewRegistry()), Clock: now,
	}
	return o
}

// look has each controller look once. An error is what a killed operator and lost answers lead to: the workqueue retries.
func (o *operator) look(ctx context.Context) (err error) {
	if o.etcds != nil {
		_, err = o.etcds.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
	}
	_, failed := o.engine.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
	return errors.Join(err, failed)
}

func pause(d time.Duration) { <-time.After(d) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
