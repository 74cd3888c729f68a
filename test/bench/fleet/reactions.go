// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/neighbors"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// samplers and rollers measure at the same time, each Etcds of its own.
	samplers, rollers = 3, 3
	// reactionTimeout is for one reaction. One that takes longer counts as this long.
	reactionTimeout = time.Minute
	// memoryInterval is how often the memory is read, and pause is between two samples.
	memoryInterval, pause = 500 * time.Millisecond, 200 * time.Millisecond
	// readInterval is how often objects are read that are measured. To read them more often keeps a small machine busy.
	readInterval = 20 * time.Millisecond
)

// reactions are how fast the operator was for healthy Etcds, in seconds, and what it needed.
type reactions struct {
	// Rejected is how long an invalid task took to be rejected, Observed a changed spec to be observed, and Replaced a changed template
	// to have the first pod deleted.
	Rejected []float64 `json:"rejectedSeconds"`
	Observed []float64 `json:"observedSeconds"`
	Replaced []float64 `json:"replacedSeconds"`
	// Written is how long the API server took to write an object that the operator does not know: what it costs everybody.
	Written []float64 `json:"writtenSeconds"`
	// Resident is the maximum resident memory of the operator, in MiB, and Load the load.
	Resident float64 `json:"residentMaxMiB"`
	Load     *Load   `json:"load"`
	// Missed are reactions that did not come in time, or failed.
	Missed int    `json:"missed"`
	Why    string `json:"why,omitempty"`
}

func (r reactions) count() int { return len(r.Rejected) + len(r.Observed) + len(r.Replaced) }

// watched are reactions that are being measured.
type watched struct {
	*bench
	measured neighbors.Measurement
	mu       sync.Mutex
	reactions
}

func newWatched(b *bench) (*watched, error) {
	// The client's own limit would be measured, too.
	config := rest.CopyConfig(b.env.Config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: b.env.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &watched{bench: b, measured: neighbors.Measurement{Client: c, Fleet: b.fleet, Poll: readInterval}}, nil
}

// run measures until the context ends.
func (w *watched) run(ctx context.Context, note func(string)) {
	var all sync.WaitGroup
	if err := w.makeOther(ctx); err != nil {
		note(err.Error())
	}
	rolled := w.etcds / 2
	for i := range samplers {
		all.Go(func() { w.each(ctx, rolled+i, w.etcds, samplers, w.sample) })
	}
	for i := range rollers {
		all.Go(func() { w.each(ctx, i, rolled, rollers, w.replace) })
	}
	all.Go(func() { w.each(ctx, 0, 1, 1, w.writeOther) })
	all.Go(func() {
		_ = poll.Until(ctx, memoryInterval, func() (bool, error) {
			now, _ := w.operator.memory()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.Resident = max(w.Resident, now)
			note(fmt.Sprintf("%d reactions, %d missed, %.0f MiB", w.reactions.count(), w.Missed, now))
			return false, nil
		})
	})
	all.Wait()
	for _, some := range []*[]float64{&w.Rejected, &w.Observed, &w.Replaced, &w.Written} {
		slices.Sort(*some)
	}
}

// each measures Etcds one after the other, from the first on, with pauses.
func (w *watched) each(ctx context.Context, first, end, step int, measure func(ctx context.Context, etcd int, value string) error) {
	for n := 0; ctx.Err() == nil; n++ {
		etcd := first + n*step%max(end-first, 1)
		limited, cancel := context.WithTimeout(ctx, reactionTimeout)
		err := measure(limited, etcd, fmt.Sprintf("%d-%d", time.Now().UnixNano(), n))
		cancel()
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.Missed++
			w.Why = err.Error()
			w.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (w *watched) add(to *[]float64, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*to = append(*to, d.Seconds())
}

// sample measures an Etcd that stays as it is.
func (w *watched) sample(ctx context.Context, etcd int, value string) error {
	from := time.Now()
	rejected, observed, err := w.measured.Once(ctx, etcd, value)
	if err != nil {
		rejected, observed = reactionTimeout, reactionTimeout
	}
	if err == nil || time.Since(from) >= reactionTimeout {
		w.add(&w.Rejected, rejected)
		w.add(&w.Observed, observed)
	}
	return err
}

// replace changes the template of an Etcd, and waits until all its pods are replaced, so that it can be measured again.
func (w *watched) replace(ctx context.Context, etcd int, value string) error {
	from := time.Now()
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(etcd), Name: simulated.EtcdName}}
	if err := w.measured.Client.Patch(ctx, e, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"podUpdatePolicy":"Recreate","annotations":{"rolled":%q}}}`, value))); err != nil {
		return fmt.Errorf("changing Etcd %d: %w", etcd, err)
	}
	seen := false
	err := poll.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		r, ended := read(from, w.kubelet.Since(etcd, from))
		if r.reaction > 0 && !seen {
			seen = true
			w.add(&w.Replaced, r.reaction)
		}
		return ended, nil
	})
	if !seen && time.Since(from) >= reactionTimeout {
		w.add(&w.Replaced, reactionTimeout)
	}
	return err
}

// makeOther makes an object that the operator does not know.
func (w *watched) makeOther(ctx context.Context) error {
	return client.IgnoreAlreadyExists(w.measured.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: other}))
}

var other = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "measured"}

// writeOther writes an object that the operator does not know.
func (w *watched) writeOther(ctx context.Context, _ int, value string) error {
	o := &corev1.ConfigMap{ObjectMeta: other}
	from := time.Now()
	if err := w.measured.Client.Patch(ctx, o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"a":%q}}`, value))); err != nil {
		return fmt.Errorf("writing a ConfigMap: %w", err)
	}
	w.add(&w.Written, time.Since(from))
	return nil
}
