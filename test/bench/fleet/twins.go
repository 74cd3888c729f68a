// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/store"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// beforePause is how long all operators act before the next one is paused.
const beforePause = 10 * time.Second

// twins is what several operators did that act at the same time, without leader election: more than one can that has lost its Lease. In turn
// each is paused, and resumes with what it knew, and with the requests that it was about to send.
type twins struct {
	Operators int `json:"operators"`
	Pauses    int `json:"pauses"`
	// Revisions of the ledger that were seen, and the most slots in use at one of them.
	Revisions int `json:"revisionsOfTheLedger"`
	Slots     int `json:"mostSlotsInUse"`
	// Exceeded are the holders at each revision with more of them than slots.
	Exceeded []string `json:"revisionsAboveTheLimit,omitempty"`
	// AtOnce is the most Etcds whose pods were being replaced at the same time, by the record of the kubelet.
	AtOnce int `json:"mostEtcdsAtOnce"`
	limit  int
}

// see judges a revision of the ledger.
func (t *twins) see(ledger *corev1.ConfigMap) error {
	l := &fleet.Ledger{}
	if err := json.Unmarshal([]byte(ledger.Data[store.Key]), l); err != nil {
		return fmt.Errorf("reading revision %s of the ledger: %w", ledger.ResourceVersion, err)
	}
	used, holders := 0, "revision "+ledger.ResourceVersion
	for i := range l.Holders {
		if h := &l.Holders[i]; h.UsesSlot() {
			used++
			holders += fmt.Sprintf("; task %s/%s at %s since %s, unasked %t, canary %t, over %t", h.Namespace, h.TaskName, h.ResourceVersion, h.Granted.Format(time.TimeOnly), h.Unasked, h.Canary, h.Over())
		}
	}
	if used > t.limit {
		t.Exceeded = append(t.Exceeded, holders)
	}
	t.Revisions++
	t.Slots = max(t.Slots, used)
	return nil
}

// follow judges every revision of the ledger until the context ends.
func (t *twins) follow(ctx context.Context, c client.WithWatch) error {
	options := &client.ListOptions{Namespace: operatorNamespace, FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, store.Name), Raw: &metav1.ListOptions{}}
	for ctx.Err() == nil {
		events, err := c.Watch(ctx, &corev1.ConfigMapList{}, options)
		if err != nil {
			return ignoreEnd(ctx, fmt.Errorf("watching the ledger: %w", err))
		}
		for event := range events.ResultChan() {
			ledger, is := event.Object.(*corev1.ConfigMap)
			if !is || event.Type == watch.Deleted {
				events.Stop()
				return ignoreEnd(ctx, fmt.Errorf("watching the ledger: %s %v", event.Type, event.Object))
			}
			if err := t.see(ledger); err != nil {
				events.Stop()
				return err
			}
			// Another watch continues here.
			options.Raw.ResourceVersion = ledger.ResourceVersion
		}
	}
	return nil
}

// ignoreEnd returns an error unless the context has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pauseInTurn pauses one operator after the other until the context ends, and returns how often.
func pauseInTurn(ctx context.Context, all []*operator, pause time.Duration) (pauses int) {
	for {
		if !sleep(ctx, beforePause) {
			return pauses
		}
		o := all[pauses%len(all)]
		// One that has ended is reported elsewhere.
		_ = o.cmd.Process.Signal(syscall.SIGSTOP)
		sleep(ctx, pause)
		_ = o.cmd.Process.Signal(syscall.SIGCONT)
		pauses++
	}
}

// sleep returns false if the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// judgeTwins starts the other operators, and pauses and judges all of them until it is stopped.
func (b *bench) judgeTwins(ctx context.Context) (stop func(from time.Time) (*twins, error), err error) {
	t := &twins{Operators: b.operators, limit: b.slots}
	for n := 1; n < b.operators; n++ {
		twin, err := b.startOperator(n)
		if err != nil {
			return nil, err
		}
		b.twins = append(b.twins, twin)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var followed error
	running.Go(func() { followed = t.follow(ctx, b.env.Client) })
	running.Go(func() { t.Pauses = pauseInTurn(ctx, append(slices.Clone(b.twins), b.operator), b.pause) })
	return func(from time.Time) (*twins, error) {
		cancel()
		running.Wait()
		var each [][]simulated.Entry
		for i := range b.etcds {
			each = append(each, b.kubelet.Since(i, from))
		}
		t.AtOnce = atOnce(each)
		if followed == nil && (t.Revisions == 0 || t.Pauses == 0) {
			followed = errors.New("no operator was paused, or the ledger was not seen, so nothing was judged: more Etcds, or a shorter -pause")
		}
		return t, followed
	}, nil
}

// atOnce returns the most Etcds that were being rolled at the same time: from the first deletion of a pod until the last one was ready.
func atOnce(each [][]simulated.Entry) int {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, entries := range each {
		if len(entries) == 0 {
			continue
		}
		changes = append(changes, change{entries[0].At, 1})
		if last := entries[len(entries)-1]; last.Ready {
			changes = append(changes, change{last.At, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
	now, most := 0, 0
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most
}

func (t *twins) targets(slots int) []target.Target {
	return []target.Target{
		target.New("slots in use at any revision of the ledger", "", float64(t.Slots), float64(slots)),
		target.New("Etcds whose pods were being replaced at the same time", "", float64(t.AtOnce), float64(slots)),
	}
}

func (t *twins) String() string {
	return fmt.Sprintf("%d operators at once, one of them paused %d times: at most %d slots in use at %d revisions of the ledger, and %d Etcds rolled at the same time", t.Operators, t.Pauses, t.Slots, t.Revisions, t.AtOnce)
}
