// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"errors"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/rollouts"
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
	"github.com/etcd-foreman/etcd-foreman/test/integration/crash/proxy"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// operator is one operator, with all that it remembers, behind a proxy of its own.
type operator struct {
	*proxy.Proxy
	stop func()
}

// start starts an operator. change is made to its proxy before it has asked for anything.
func (w *world) start(change ...func(*proxy.Proxy)) *operator {
	w.t.Helper()
	var p *proxy.Proxy
	p, err := proxy.Start(testEnv.Config, func(write disturb.Write) disturb.Fate { return w.decide(p, write) })
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range change {
		f(p)
	}
	mgr := testEnv.NewManager(w.t, p.Config(), w.namespace, func(mgr ctrl.Manager) error { return w.setup(mgr, p) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// One that is killed while its caches fill returns an error.
		if err := mgr.Start(ctx); err != nil && !p.Killed() {
			w.t.Errorf("running the operator: %v", err)
		}
	}()
	stop := func() {
		cancel()
		_ = p.Close()
		<-done
	}
	w.t.Cleanup(stop)
	return &operator{p, stop}
}

// setup adds the controllers of the operator, and all of its task types.
func (w *world) setup(mgr ctrl.Manager, p *proxy.Proxy) error {
	cached, live, now, locker := mgr.GetClient(), mgr.GetAPIReader(), w.clock, &lock.Locks{}
	images := configv1alpha1.Images{Etcd: "localhost/etcd:v1", EtcdAgent: "localhost/agent:v1"}
	dialer := disturb.Members{Dialer: w.fake, Write: p.Write}
	observer := observe.New(dialer, now)
	jobs := tasks.Jobs{Client: cached, Live: live, Clock: now}
	agents := func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
		return api.Client{BaseURL: w.agent.URL}, nil
	}
	registry := tasks.Registry{
		v1alpha1.QuorumAwareRollout: {Handler: &quorumaware.Handler{Client: cached, Live: live, Observer: observer, Dialer: dialer, Clock: now, Agent: agents}},
		v1alpha1.RecreateRollout: {Supersedes: []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout}, Handler: &recreate.Handler{
			Client: cached, Live: live, Observer: observer, Clock: now,
		}},
		v1alpha1.QuorumLossRecovery:  {Deadline: recovery.Deadline, Handler: &recovery.Handler{Client: cached, Live: live, Observer: observer, Clock: now, Image: images.EtcdAgent}},
		v1alpha1.OnDemandMaintenance: {Deadline: maintenance.Deadline, Handler: &maintenance.Handler{Live: live, Observer: observer, Dialer: dialer}},
		v1alpha1.OnDemandSnapshot:    {Deadline: snapshot.Deadline, Handler: &snapshot.Handler{Live: live, Observer: observer, Clock: now, Agent: agents}},
		v1alpha1.OnDemandCompaction:  {Deadline: compaction.Deadline, Handler: &compaction.Handler{Jobs: jobs, Image: images.EtcdAgent}},
		v1alpha1.CopyBackups:         {Deadline: copybackups.Deadline, Handler: &copybackups.Handler{Jobs: jobs, Image: images.EtcdAgent}},
	}
	return errors.Join(
		(&etcd.Reconciler{
			Client: cached, APIReader: live, Observer: observer, Locker: locker, Clock: now, Dialer: dialer,
			Recorder: mgr.GetEventRecorder("etcd-foreman"), Images: images, QuorumAwareUpdates: true,
		}).Setup(mgr, 1),
		(&rollouts.Reconciler{Client: cached, Live: live, Clock: now}).Setup(mgr, 1),
		(&engine.Reconciler{
			Client: cached, Live: live, Registry: registry, Locker: locker, Clock: now,
			Recorder: mgr.GetEventRecorder("etcd-foreman"), Metrics: engine.NewMetrics(prometheus.NewRegistry()),
		}).Setup(mgr, 1),
	)
}

// swift is a clock that runs faster than that of the machine, so that a recovery does not wait for half a minute.
type swift struct{ begun time.Time }

// haste is how much faster. The operator looks at members once a second of the machine, and a loss that it has not seen for ten seconds counts as new.
const haste = 4

// Now implements clock.PassiveClock.
func (s swift) Now() time.Time { return s.begun.Add(haste * time.Since(s.begun)) }

// Since implements clock.PassiveClock.
func (s swift) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

var _ clock.PassiveClock = swift{}
