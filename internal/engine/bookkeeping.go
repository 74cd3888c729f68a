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

// bookkeeping is what the engine remembers between reconciles, by Etcd and task. All of it may be lost: at worst, a status is written once
// more, or there is no cleanup after a task that is deleted while the operator restarts.
type bookkeeping struct {
	mu    sync.Mutex
	etcds map[types.NamespacedName]map[types.UID]*record
}

// record is what is remembered about a task.
type record struct {
	// write is the last write of its status.
	write written
	// run is the task while it runs; nil otherwise.
	run *tasks.Task
	// pause of a task after a failure: recording the failure triggers a reconcile, which must not retry at once.
	pause pause
	// config is the decoded config of a task that has not ended; nil if it has not been decoded yet. Configs are immutable.
	config *decoded
	// lasts measures how long the task has been running, and over how long ago it ended: two times, which two clocks may date to one second.
	lasts, over reading
	// progress measures how long the task has made no progress.
	progress reading
	// troubled: cleaning up after the deleted task failed, and an event has said so.
	troubled bool
	// reminded is when an event last said that the task is left alone.
	reminded time.Time
}

// decoded is the result of decoding spec.config.
type decoded struct {
	raw    string
	config any
	err    error
}

// pause is a back-off: when it ends, and how long it is in all.
type pause struct {
	until time.Time
	wait  time.Duration
}

// The back-off of a task that keeps failing starts at firstPause and doubles up to maxPause.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 30 * time.Second
)

// written is a write of a status: its time, and the resourceVersion that it produced.
type written struct {
	at              time.Time
	resourceVersion string
}

// maxCacheLag is how long to wait for the cache to catch up. An API server that was restored from a backup may never show the write.
const maxCacheLag = 5 * time.Second

// isBehind reports whether a task in the cache is older than the last write. If so, an event will follow.
func (w written) isBehind(cached *v1alpha1.EtcdOperatorTask, now time.Time) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, w.resourceVersion)
	return err == nil && order < 0 && now.Sub(w.at) < maxCacheLag
}

// of returns the record of a task. The caller holds the mutex.
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

// keep forgets the tasks that are gone, except those that ran and have not been cleaned up after, and the Etcd once it has no records.
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

// decode returns the decoded config of a task. It is decoded once, without holding the mutex.
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

// retry starts the back-off after a failed step, and returns its length. It grows by a quarter each time: a step that fails for seconds is
// retried within a second or two, and one that etcd refuses for hours writes its intent as rarely as details.
func (b *bookkeeping) retry(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	return b.pause(t, now, func(last time.Duration) time.Duration { return min(max(last+last/4, retryInterval), detailInterval) })
}

// backOff starts a back-off twice as long as the last one, and returns its length, and whether it is the first one of the greatest length.
func (b *bookkeeping) backOff(t *v1alpha1.EtcdOperatorTask, now time.Time) (wait time.Duration, longest bool) {
	wait = b.pause(t, now, func(last time.Duration) time.Duration {
		longest = last < maxPause && 2*last >= maxPause
		return min(max(2*last, firstPause), maxPause)
	})
	return wait, longest
}

// pause starts a back-off whose length follows from that of the last one, and returns it.
func (b *bookkeeping) pause(t *v1alpha1.EtcdOperatorTask, now time.Time, next func(last time.Duration) time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	r.pause.wait = next(r.pause.wait)
	r.pause.until = now.Add(r.pause.wait)
	return r.pause.wait
}

// resume resets the back-off of a task that has gone without a failure for as long as it last waited, and for detailInterval at least. A
// request in the background fails after the reconcile that started it has succeeded: that alone proves nothing.
func (b *bookkeeping) resume(t *v1alpha1.EtcdOperatorTask, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.of(t); !r.pause.until.Add(max(r.pause.wait, detailInterval)).After(now) {
		r.pause = pause{}
	}
}

// pausedFor returns the rest of a back-off; not positive if there is none.
func (b *bookkeeping) pausedFor(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(t).pause.until.Sub(now)
}

// reading measures the time since an event that a status records: when the event was, when this process first saw it, and how long ago it
// was then. From then on, the monotonic clock counts.
type reading struct {
	since, at time.Time
	before    time.Duration
}

// start begins to measure the time since an event, unless it is being measured already, and returns for how long it has been.
func (r *reading) start(since time.Time, clock clock.PassiveClock) (seen time.Duration) {
	if second := since.Truncate(time.Second); !r.since.Equal(second) || r.at.IsZero() {
		now := clock.Now()
		*r = reading{second, now, max(0, now.Sub(since.Round(0)))}
	}
	return clock.Since(r.at)
}

// sinceOf returns the reading of a task in its state.
func (r *record) sinceOf(t *v1alpha1.EtcdOperatorTask) *reading {
	if t.Status.State.IsFinal() {
		return &r.over
	}
	return &r.lasts
}

// elapsed returns how long a task has been running, or how long ago it ended, and for how much of that time this process has watched it.
// The time in the status comes from a wall clock, perhaps another machine's: a time in the future counts as now.
func (b *bookkeeping) elapsed(t *v1alpha1.EtcdOperatorTask, since time.Time, clock clock.PassiveClock) (elapsed, seen time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t).sinceOf(t)
	seen = r.start(since, clock)
	return r.before + seen, seen
}

// idle returns how long this process has watched a task make no progress.
func (b *bookkeeping) idle(t *v1alpha1.EtcdOperatorTask, last time.Time, clock clock.PassiveClock) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(t).progress.start(last, clock)
}

// rests resets the idle time of a task that is suspended or paused: only the time after it resumes counts.
func (b *bookkeeping) rests(t *v1alpha1.EtcdOperatorTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(t).progress = reading{}
}

// correct replaces the elapsed time of a task by one measured with a trusted clock.
func (b *bookkeeping) correct(t *v1alpha1.EtcdOperatorTask, elapsed time.Duration, clock clock.PassiveClock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t).sinceOf(t)
	r.before = elapsed - clock.Since(r.at)
}

// running remembers a running task. It keeps the object itself, since Cleanup after a deletion needs what is recorded in it later.
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

// trouble records that cleaning up after a deleted task failed, and reports whether that is new.
func (b *bookkeeping) trouble(t *v1alpha1.EtcdOperatorTask) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	known := r.troubled
	r.troubled = true
	return !known
}

// remindedFor returns how long an event that a task is left alone is good for; if that is over, it counts as emitted now, and 0 is returned.
func (b *bookkeeping) remindedFor(t *v1alpha1.EtcdOperatorTask, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(t)
	if left := r.reminded.Add(unknownAgain).Sub(now); left > 0 {
		return left
	}
	r.reminded = now
	return 0
}

// deleted returns the tasks that ran and no longer exist, sorted by name.
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
