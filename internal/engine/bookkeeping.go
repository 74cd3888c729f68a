// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// bookkeeping is what the engine keeps between reconciles, by Etcd and task. Everything in it can be lost: then a status is
// written once more, or a task that is deleted in the very moment in which the operator restarts is not cleaned up
// after.
type bookkeeping struct {
	mu    sync.Mutex
	etcds map[types.NamespacedName]map[types.UID]*record
}

// record is what is kept of a task.
type record struct {
	// write is the last one of its status.
	write written
	// run is the task while it runs: one does, or another that runs beside it or has preempted it.
	run *tasks.Task
	// pause of a task that something failed for: the very record of a failure would trigger a reconcile.
	pause pause
	// config of a task that has not ended, decoded; nil if it was not. A config is immutable.
	config *decoded
	// reading of the clock for a task that runs, or has ended.
	reading reading
	// progress is what the clock said when this process first saw the newest progress of a task.
	progress reading
	// troubled: it was deleted and could not be cleaned up after, and there was an event.
	troubled bool
}

// decoded is what a handler made of spec.config.
type decoded struct {
	raw    string
	config any
	err    error
}

// pause is until when a task is left alone, and for how long it was.
type pause struct {
	until time.Time
	wait  time.Duration
}

// A task that fails again and again is left alone for the first of these, then for twice as long, and so on up to the
// second.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

// written is a write of a status: when it was, and the resourceVersion that it made.
type written struct {
	at              time.Time
	resourceVersion string
}

// maxCacheLag is how long the cache is waited for. An API server that was restored from a backup may never show again
// what was written to it.
const maxCacheLag = 5 * time.Second

// isBehind reports whether a task in the cache is older than what was written last. An event will follow.
func (w written) isBehind(cached *v1alpha1.EtcdOperatorTask, now time.Time) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, w.resourceVersion)
	return err == nil && order < 0 && now.Sub(w.at) < maxCacheLag
}

// of is what is kept of a task. The caller holds the mutex.
func (b *bookkeeping) of(t *v1alpha1.EtcdOperatorTask) *record {
	etcd := t.EtcdKey()
	if b.etcds == nil {
		b.etcds = map[types.NamespacedName]map[types.UID]*record{}
	}
	if b.etcds[etcd] == nil {
		b.etcds[etcd] = map[types.UID]*record{}
	}
	if b.etcds[etcd][t.UID] == nil {
		b.etcds[etcd][t.UID] = &record{}
	}
	return b.etcds[etcd][t.UID]
}

// keep forgets the tasks that are gone, but for those that ran, and the Etcd when nothing is left to remember.
func (b *bookkeeping) keep(etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	there := map[types.UID]*v1alpha1.EtcdOperatorTask{}
	for _, t := range all {
		there[t.UID] = t
	}
	for uid, r := range b.etcds[etcd] {
		switch t := there[uid]; {
		case t == nil && r.run == nil:
			delete(b.etcds[etcd], uid)
		case t == nil || t.Status.State.IsFinal():
			r.config = nil
		}
	}
	if len(b.etcds[etcd]) == 0 {
		delete(b.etcds, etcd)
	}
}

// decode returns what a handler makes of the config of a task, and has it do so once. Others do not wait for it.
func (b *bookkeeping) decode(t *v1alpha1.EtcdOperatorTask, handler tasks.Handler) (any, error) {
	known := b.decoded(t)
	if known == nil || known.raw != t.Spec.Config {
		known = &decoded{raw: t.Spec.Config}
		known.config, known.err = handler.Decode(t.Spec.Config)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.of(t).config = known
	}
	return known.config, known.err
}

func (b *bookkeeping) decoded(t *v1alpha1.EtcdOperatorTask) *decoded {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(t).config
}

func (b *bookkeeping) lastWrite(t *v1alpha1.EtcdOperatorTask) written {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(t).write
}

func (b *bookkeeping) wrote(t *v1alpha1.EtcdOperatorTask, w written) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(t).write = w
}

// pause leaves a task alone for a while.
func (b *bookkeeping) pause(t *v1alpha1.EtcdOperatorTask, now time.Time, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(t).pause = pause{now.Add(wait), wait}
}

// backOff leaves a task alone for twice as long as the last time, and returns for how long.
func (b *bookkeeping) backOff(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	wait := min(max(2*r.pause.wait, firstPause), maxPause)
	r.pause = pause{now.Add(wait), wait}
	return wait
}

// resume forgets the pause of a task, once it is over.
func (b *bookkeeping) resume(t *v1alpha1.EtcdOperatorTask, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.of(t); !r.pause.until.After(now) {
		r.pause = pause{}
	}
}

// pausedFor is how long a task is still left alone; not more than 0 when it is not.
func (b *bookkeeping) pausedFor(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(t).pause.until.Sub(now)
}

// reading is what the clock said when this process first saw that a task runs or has ended, and how long ago it had begun to by
// that. The time since then is measured by the monotonic clock.
type reading struct {
	since, at time.Time
	before    time.Duration
}

// elapsed returns for how long a task has been running, or how long ago it ended, and for how much of that this process has seen it.
// What the status says is from the wall clock, perhaps of another machine: a time in the future was just now.
func (b *bookkeeping) elapsed(t *v1alpha1.EtcdOperatorTask, since time.Time, clock clock.PassiveClock) (elapsed, seen time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, second := b.of(t), since.Truncate(time.Second)
	if !r.reading.since.Equal(second) || r.reading.at.IsZero() {
		now := clock.Now()
		r.reading = reading{second, now, max(0, now.Sub(since.Round(0)))}
	}
	seen = clock.Since(r.reading.at)
	return r.reading.before + seen, seen
}

// idle returns for how long this process has seen a task without progress since its last one.
func (b *bookkeeping) idle(t *v1alpha1.EtcdOperatorTask, last time.Time, clock clock.PassiveClock) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, second := b.of(t), last.Truncate(time.Second)
	if !r.progress.since.Equal(second) || r.progress.at.IsZero() {
		r.progress = reading{since: second, at: clock.Now()}
	}
	return clock.Since(r.progress.at)
}

// rests has a task that is suspended or pauses make no less progress for that: it is idle from when it goes on.
func (b *bookkeeping) rests(t *v1alpha1.EtcdOperatorTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(t).progress = reading{}
}

// correct remembers for how long a task has been running, or how long ago it ended, by a clock that is known to be right.
func (b *bookkeeping) correct(t *v1alpha1.EtcdOperatorTask, elapsed time.Duration, clock clock.PassiveClock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	r.reading.before = elapsed - clock.Since(r.reading.at)
}

// running remembers a task of an Etcd that runs. The object itself is kept, because what is recorded in it later
// counts when the task has been deleted.
func (b *bookkeeping) running(task tasks.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(task.Object).run = &task
}

func (b *bookkeeping) ended(t *v1alpha1.EtcdOperatorTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	r.run, r.troubled = nil, false
}

// trouble remembers that a deleted task could not be cleaned up after, and reports whether that is new.
func (b *bookkeeping) trouble(t *v1alpha1.EtcdOperatorTask) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	known := r.troubled
	r.troubled = true
	return !known
}

// deleted are the tasks that ran and no longer exist, by name.
func (b *bookkeeping) deleted(etcd types.NamespacedName, all []*v1alpha1.EtcdOperatorTask) []tasks.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gone []tasks.Task
	for uid, r := range b.etcds[etcd] {
		if r.run != nil && !slices.ContainsFunc(all, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == uid }) {
			gone = append(gone, *r.run)
		}
	}
	slices.SortFunc(gone, func(a, b tasks.Task) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return gone
}
