// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
)

// The status reports a stage once it has failed at least twice in a row and for this long: the first retry comes after milliseconds, and
// clients wait for status.lastErrors to be empty.
const (
	reportAfter = 2 * time.Second
	reportTimes = 2
	// awaitAfter is for a stage that only waits for something to be seen first, which takes seconds.
	awaitAfter = time.Minute
)

// failures holds the failing stages of each Etcd, by name, and what they wait for, by waits.
type failures struct {
	memory.PerEtcd[map[string]failure]
}

// failure of a stage.
type failure struct {
	status.Failure
	// times is how often in a row the stage has failed, and since is when it first did.
	times int
	since time.Time
}

func (f failure) lasts(now time.Time) bool {
	after := reportAfter
	if f.Waits {
		after = awaitAfter
	}
	return f.times >= reportTimes && now.Sub(f.since) >= after
}

// waits is the key of what a stage waits for. It is not that of its failures: a wait does not count as one.
func (s stage) waits() string { return s.name + " waits" }

// note records the outcome of a stage. A success resets its failures; a stage that is not reached keeps them.
func (f *failures) note(etcd *v1alpha1.Etcd, s stage, err error, now time.Time) {
	f.endWaits(etcd, []stage{s})
	if err == nil {
		f.drop(etcd, s.name)
	} else {
		f.count(etcd, s.name, status.Failure{Code: s.code, Err: err}, now)
	}
}

// await records that a stage waits for something to be seen first, which ends the reconcile. A failure of the stage stays until it has succeeded.
func (f *failures) await(etcd *v1alpha1.Etcd, s stage, err error, now time.Time) {
	f.count(etcd, s.waits(), status.Failure{Code: s.code, Err: err, Waits: true}, now)
}

// endWaits records that stages do not wait, or were not reached: what they have waited for before may have been seen.
func (f *failures) endWaits(etcd *v1alpha1.Etcd, stages []stage) {
	for _, s := range stages {
		f.drop(etcd, s.waits())
	}
}

func (f *failures) count(etcd *v1alpha1.Etcd, key string, next status.Failure, now time.Time) {
	before := f.Of(etcd)
	last, known := before[key]
	if !known {
		last.since = now
	}
	f.Set(etcd, memory.With(before, key, failure{next, last.times + 1, last.since}))
}

func (f *failures) drop(etcd *v1alpha1.Etcd, key string) {
	before := f.Of(etcd)
	if _, known := before[key]; known {
		next := maps.Clone(before)
		delete(next, key)
		f.Set(etcd, next)
	}
}

// reported returns the failures for the status: those that have lasted, and those that the status already reports, because a restarted
// operator does not know how long they have lasted. What a stage waits for is newer than its failure, and replaces it.
func (f *failures) reported(etcd *v1alpha1.Etcd, now time.Time) (reported []status.Failure) {
	all := f.Of(etcd)
	for _, s := range slices.Concat(stages, followUps) {
		for _, key := range []string{s.waits(), s.name} {
			if failed, ok := all[key]; ok && (failed.lasts(now) || failed.In(etcd.Status.LastErrors)) {
				reported = append(reported, failed.Failure)
				break
			}
		}
	}
	return reported
}

// summary returns the names of the stages whose failures are reported, and whether there are foreign objects.
func (f *failures) summary(etcd *v1alpha1.Etcd, now time.Time, foreign bool) string {
	all := f.Of(etcd)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].lasts(now) {
			names = append(names, name)
		}
	}
	if foreign {
		names = append(names, "foreign objects")
	}
	return strings.Join(names, ",")
}
