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

	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/timeline"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silence is how long the writers may be without an answer before it is told.
const silence = time.Second

// line is something to tell. A line with the name of a pod is a step that somebody took.
type line struct {
	text string
	pod  string
}

// teller watches one kind of object, and makes lines of how one changes: before is nil for a new one.
type teller struct {
	object client.Object
	lines  func(before, after client.Object) []line
}

// storyteller tells live of a rollout.
type storyteller struct {
	console *console.Console
	cluster string // name of the StatefulSet and the Etcd
	started time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	mutex sync.Mutex
	taken []timeline.Step
}

// begin starts to tell of what happens from now on.
func (d *demo) begin(ctx context.Context, writer *measure.Writer, w way) (*storyteller, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &storyteller{console: d.console, cluster: d.cluster.Name, started: time.Now(), stop: cancel}
	if err := s.watch(ctx, d, w.tell(s)); err != nil {
		s.end()
		return nil, fmt.Errorf("watching the rollout: %w", err)
	}
	s.started = time.Now()
	s.running.Go(func() { s.listen(ctx, writer) })
	return s, nil
}

// watch tells of every change that the API server shows. What is there already is no change.
func (s *storyteller) watch(ctx context.Context, d *demo, t teller) error {
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
				s.tell(t.lines(nil, object.(client.Object)))
			}
		},
		UpdateFunc: func(before, after any) { s.tell(t.lines(before.(client.Object), after.(client.Object))) },
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

func (s *storyteller) tell(lines []line) {
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
func (s *storyteller) say(now time.Time, text string) {
	s.console.Line("  %6.1f s  %s", now.Sub(s.started).Seconds(), text)
}

// listen tells when the writers have no answer for long, and when they have one again.
func (s *storyteller) listen(ctx context.Context, writer *measure.Writer) {
	ticker := time.NewTicker(silence / 10)
	defer ticker.Stop()
	for deaf := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			switch _, last := writer.Acknowledged(); {
			case deaf.IsZero() && now.Sub(last) > silence:
				deaf = last
				s.say(now, "NO WRITES: no member has acknowledged one for a second")
			case !deaf.IsZero() && last.After(deaf):
				s.say(now, fmt.Sprintf("writes again, after %.1f s", last.Sub(deaf).Seconds()))
				deaf = time.Time{}
			}
		}
	}
}

// steps are the steps so far.
func (s *storyteller) steps() []timeline.Step {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.taken)
}

// end stops telling.
func (s *storyteller) end() {
	s.stop()
	s.running.Wait()
}
