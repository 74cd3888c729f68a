// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/neighbors"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Numbers of Etcds: the one changed while the operator is down, the one rolled alone, and the first of those rolled at
// once.
const (
	unseen = iota
	alone
	firstOfMany
)

const (
	// makeTimeout is for a thousand Etcds together; a loaded machine takes minutes.
	makeTimeout = 30 * time.Minute
	// restartTimeout is how long the operator of a thousand Etcds may take to be ready.
	restartTimeout = 5 * time.Minute
	// makeInterval is how often a thousand Etcds are listed until they are ready.
	makeInterval = 2 * time.Second
	// readyInterval is how often the operator of a thousand Etcds is asked whether it is ready. Its answer names every Etcd: asked five times
	// a second, answers are a quarter of what a starting operator does.
	readyInterval = time.Second
	// creators is how many Etcds are created at the same time.
	creators = 10
)

// scaled returns a time that is given for a thousand Etcds: proportionally longer for more.
func (b *bench) scaled(d time.Duration) time.Duration {
	return d * time.Duration(max(b.etcds, 1000)) / 1000
}

// make starts the operator and creates the Etcds.
func (b *bench) make(ctx context.Context) error {
	return b.console.Step(fmt.Sprintf("%d Etcds", b.etcds), func(note func(string)) (string, error) {
		if err := b.restartOperator(); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, b.scaled(makeTimeout), fmt.Errorf("not all are ready within %s", b.scaled(makeTimeout)))
		defer cancel()
		if err := b.create(ctx); err != nil {
			return "", err
		}
		from := time.Now()
		if err := b.untilReady(ctx, b.etcds, note); err != nil {
			return "", err
		}
		b.results.MadeIn = time.Since(from).Seconds()
		_, b.results.WhileMade = b.operator.memory()
		return fmt.Sprintf("all ready, with %d pods", b.etcds*simulated.Members), nil
	})
}

// untilReady waits until as many Etcds are ready as there are.
func (b *bench) untilReady(ctx context.Context, all int, note func(string)) error {
	return poll.Until(ctx, b.scaled(makeInterval), func() (bool, error) {
		if err := b.operator.alive(); err != nil {
			return false, err
		}
		etcds := &v1alpha1.EtcdList{}
		if err := b.env.Client.List(ctx, etcds); err != nil {
			return false, fmt.Errorf("listing Etcds: %w", err)
		}
		ready := 0
		for i := range etcds.Items {
			if r := etcds.Items[i].Status.Ready; r != nil && *r {
				ready++
			}
		}
		note(fmt.Sprintf("%d of %d are ready", ready, all))
		return ready == all, nil
	})
}

func (b *bench) create(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var working sync.WaitGroup
	for range creators {
		working.Go(func() {
			for i := range next {
				port := int32(b.fleet.Port)
				for _, o := range []client.Object{
					&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: simulated.Namespace(i)}},
					&v1alpha1.Etcd{
						ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(i), Name: simulated.EtcdName},
						Spec:       v1alpha1.EtcdSpec{Replicas: simulated.Members, Etcd: v1alpha1.EtcdConfig{ClientPort: &port}},
					},
				} {
					if err := b.env.Client.Create(ctx, o); err != nil {
						cancel(fmt.Errorf("creating %T %d: %w", o, i, err))
					}
				}
			}
		})
	}
	for i := range b.etcds {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	working.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// restart restarts the operator, and measures how long it takes to reconcile every Etcd, and to delete the first pod for a
// change made while it was down.
func (b *bench) restart(ctx context.Context) error {
	return b.console.Step("restart", func(note func(string)) (string, error) {
		note("waiting until writes stop")
		if err := b.server.untilQuiet(ctx); err != nil {
			return "", err
		}
		if err := b.operator.end(syscall.SIGTERM); err != nil {
			return "", err
		}
		if err := b.change(ctx, unseen); err != nil {
			return "", err
		}
		if err := b.restartOperator(); err != nil {
			return "", err
		}
		started := b.operator.started
		b.profile(ctx, "restart-cpu", cpuProfile)
		ctx, cancel := context.WithTimeoutCause(ctx, b.scaled(restartTimeout), fmt.Errorf("the operator is not ready within %s", b.scaled(restartTimeout)))
		defer cancel()
		err := poll.Until(ctx, b.scaled(readyInterval), func() (bool, error) { return b.operator.ready(ctx, b.etcds), nil })
		if err != nil {
			return "", err
		}
		b.results.Ready = time.Since(started).Seconds()
		cpu := b.operator.cpu()
		b.profile(ctx, "restart-heap", heapProfile)
		b.results.AtReady, _ = b.operator.memory()
		if err := b.untilRolled(ctx, started, unseen); err != nil {
			return "", err
		}
		b.results.Unseen = b.kubelet.Since(unseen, started)[0].At.Sub(started).Seconds()
		b.results.ReadyCPU = cpu.Seconds()
		return fmt.Sprintf("ready after %.1f s (%.1f s of CPU time); first deletion after %.1f s; %.0f MiB when ready",
			b.results.Ready, b.results.ReadyCPU, b.results.Unseen, b.results.AtReady), nil
	})
}

// restartOperator starts an operator with the kubeconfig of its ServiceAccount.
func (b *bench) restartOperator() (err error) {
	b.operator, err = b.startOperator(0)
	return err
}

// change changes the template of an Etcd.
func (b *bench) change(ctx context.Context, etcd int) error { return b.changeTo(ctx, etcd, "once") }

// changeTo changes the template of an Etcd, in a way that takes new pods, to one that package simulated knows, or that works.
func (b *bench) changeTo(ctx context.Context, etcd int, template string) error {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(etcd), Name: simulated.EtcdName}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"podUpdatePolicy":"Recreate","annotations":{%q:%q}}}`, simulated.Annotation, template))
	if err := b.env.Client.Patch(ctx, e, patch); err != nil {
		return fmt.Errorf("changing Etcd %d: %w", etcd, err)
	}
	return nil
}

// besideOthers measures how fast the operator reacts for healthy Etcds beside others that keep it busy.
func (b *bench) besideOthers(ctx context.Context) error {
	return b.console.Step("neighbors", func(note func(string)) (string, error) {
		m := neighbors.Measurement{Client: b.env.Client, Fleet: b.fleet, First: firstOfMany, Etcds: b.etcds, Samples: b.samples}
		var err error
		if b.results.Neighbors, err = m.Run(ctx, note); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d samples of each", b.samples), nil
	})
}
