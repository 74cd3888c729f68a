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

	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxSilence is how long the writers may go without an answer before the demo reports it.
const maxSilence = time.Second

// line is a line of output. A line with the name of a pod is a step of the rollout.
type line struct {
	text string
	pod  string
}

// source is a kind of object to watch. lines describes a change; before is nil for a new object.
type source struct {
	object client.Object
	lines  func(before, after client.Object) []line
}

// reporter prints the events of a rollout as they happen.
type reporter struct {
	console *console.Console
	cluster string // name of the StatefulSet and the Etcd
	started time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	mutex sync.Mutex
	taken []timeline.Step
}

// begin starts to report events.
func (d *demo) begin(ctx context.Context, writer *measure.Writer, w way) (*reporter, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &reporter{console: d.console, cluster: d.cluster.Name, started: time.Now(), stop: cancel}
	if err := s.watch(ctx, d, w.source(s)); err != nil {
		s.end()
		return nil, fmt.Errorf("watching the rollout: %w", err)
	}
	s.started = time.Now()
	s.running.Go(func() { s.listen(ctx, writer) })
	return s, nil
}

// watch reports every change that the API server shows. Existing objects are no change.
func (s *reporter) watch(ctx context.Context, d *demo, t source) error {
	all, err := cache.New(d.cluster.Config, cache.Options{
		Scheme: d.cluster.Client.Scheme(), DefaultNamespaces: map[string]cache.Config{d.cluster.Namespace: {}},
	})
	if err != nil {
		return err
	}
	informer, err := all.GetInformer(ctx, t.object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if !initial {
				s.report(t.lines(nil, object.(client.Object)))
			}
		},
		UpdateFunc: func(before, after any) { s.report(t.lines(before.(client.Object), after.(client.Object))) },
	})
	if err != nil {
		return err
	}
	s.running.Go(func() { all.Start(ctx) }) //nolint:errcheck // it ends with the context
	if !toolscache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

func (s *reporter) report(lines []line) {
	now := time.Now()
	for _, l := range lines {
		if l.pod != "" {
			s.mutex.Lock()
			s.taken = append(s.taken, timeline.Step{At: now, Pod: l.pod, Text: l.text})
			s.mutex.Unlock()
		}
		s.say(now, l.text)
	}
}

// say prints a line with its time.
func (s *reporter) say(now time.Time, text string) {
	s.console.Line("  %6.1f s  %s", now.Sub(s.started).Seconds(), text)
}

// listen reports when the writers get no answer for long, and when they get one again.
func (s *reporter) listen(ctx context.Context, writer *measure.Writer) {
	ticker := time.NewTicker(maxSilence / 10)
	defer ticker.Stop()
	for deaf := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			switch _, last := writer.Acknowledged(); {
			case deaf.IsZero() && now.Sub(last) > maxSilence:
				deaf = last
				s.say(now, "NO WRITES: no member has acknowledged one for a second")
			case !deaf.IsZero() && last.After(deaf):
				s.say(now, fmt.Sprintf("writes again, after %.1f s", last.Sub(deaf).Seconds()))
				deaf = time.Time{}
			}
		}
	}
}

// steps returns the steps so far.
func (s *reporter) steps() []timeline.Step {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.taken)
}

// end stops reporting.
func (s *reporter) end() {
	s.stop()
	s.running.Wait()
}
