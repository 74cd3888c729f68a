// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/crash/operator/proxy"
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
	w.T.Helper()
	var p *proxy.Proxy
	p, err := proxy.Start(testEnv.Config, func(write disturb.Write) disturb.Fate { return w.decide(p, write) })
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range change {
		f(p)
	}
	mgr := testEnv.NewManager(w.T, p.Config(), w.Namespace, func(mgr ctrl.Manager) error { return w.setup(mgr, p) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// One that is killed while its caches fill returns an error.
		if err := mgr.Start(ctx); err != nil && !p.Killed() {
			w.T.Errorf("running the operator: %v", err)
		}
	}()
	stop := func() {
		cancel()
		_ = p.Close()
		<-done
	}
	w.T.Cleanup(stop)
	return &operator{p, stop}
}

// setup adds the operator to a manager.
func (w *world) setup(mgr ctrl.Manager, p *proxy.Proxy) error {
	d := composition.With(disturb.Members{Dialer: w.Members, Write: p.Write}, w.clock).Of(mgr)
	d.Agent = composition.AgentAt(w.agent.URL)
	return composition.New(w.T, d).Setup(w.T.Context(), mgr)
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
