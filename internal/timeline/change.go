// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// OfChange returns how a change went through the fleet, until now if it goes on: a lane for each Etcd, from the statuses of the tasks
// that have the change, and what policies say of it: where it is watched, and where it failed. It reports false if no task has it.
func OfChange(name string, tasks []v1alpha1.EtcdOperatorTask, policies []v1alpha1.EtcdFleetPolicy, now time.Time) (Chart, bool) {
	known := knownOf(name, policies)
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Status.Change != name || t.Status.CompletedAt != nil && t.Status.CompletedAt.Time.Before(known.since)
	})
	if len(tasks) == 0 {
		return Chart{}, false
	}
	slices.SortFunc(tasks, func(a, b v1alpha1.EtcdOperatorTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(laneOf(&a), laneOf(&b)))
	})
	run := Run{Name: "etcd-foreman, each Etcd", Good: true, From: now, WritesUnknown: true, clusters: map[string][]stretch{}}
	for i := range tasks {
		run.addTask(&tasks[i], known)
	}
	slices.SortStableFunc(run.Members, func(a, b string) int { return run.start(a, now).Compare(run.start(b, now)) })
	run.conclude(known, now)
	return Chart{Title: "Change " + name, Subtitle: "As the statuses of its tasks and of the EtcdFleetPolicies record it.", Axis: "seconds since its first task was created", Runs: []Run{run}}, true
}

// known is what policies say of a change, by lane.
type known struct {
	// since is when it began: what ended before is of an earlier time.
	since   time.Time
	watched map[string]bool
	failed  map[string]v1alpha1.FleetFailure
	// partial: more clusters may be watched or have failed than these. Statuses list so many and no more.
	partial bool
}

func knownOf(name string, policies []v1alpha1.EtcdFleetPolicy) known {
	k := known{watched: map[string]bool{}, failed: map[string]v1alpha1.FleetFailure{}}
	shown := false
	for i := range policies {
		watched := int32(0)
		for _, h := range policies[i].Status.Holders {
			if h.Change == name && h.WatchedSince != nil {
				k.watched[h.Namespace+"/"+h.Etcd] = true
				watched++
			}
		}
		for _, c := range policies[i].Status.Changes {
			if c.Change != name {
				continue
			}
			shown, k.partial = true, k.partial || c.Watched > watched || int(c.Failed) > len(c.Failures)
			if k.since.IsZero() || c.Since.Time.Before(k.since) {
				k.since = c.Since.Time
			}
			for _, f := range c.Failures {
				k.failed[f.Namespace+"/"+f.Etcd] = f
			}
		}
	}
	k.partial = k.partial || !shown
	return k
}

func laneOf(t *v1alpha1.EtcdOperatorTask) string {
	return t.Namespace + "/" + t.Spec.OwnerEtcdReference.Name
}

// start is when the first task of an Etcd started; now if none has.
func (r *Run) start(lane string, now time.Time) time.Time {
	if i := slices.IndexFunc(r.clusters[lane], func(s stretch) bool { return s.class == "unready" }); i >= 0 {
		return r.clusters[lane][i].from
	}
	return now
}

// addTask draws a task in the lane of its Etcd, in which an earlier one may be.
func (r *Run) addTask(t *v1alpha1.EtcdOperatorTask, k known) {
	lane := laneOf(t)
	all, drawn := r.clusters[lane]
	if !drawn {
		r.Members = append(r.Members, lane)
	}
	// begin ends what the lane shows, and begins what follows.
	begin := func(at time.Time, class string) {
		if n := len(all); n > 0 {
			all[n-1].to = at
		}
		all = append(all, stretch{from: at, class: class, title: lane + ": " + clusterWords.of(class).text})
	}
	begin(t.CreationTimestamp.Time, "old")
	if t.Status.InitiatedAt != nil {
		begin(t.Status.InitiatedAt.Time, "unready")
	}
	if end := t.Status.CompletedAt; end != nil {
		begin(end.Time, classOfEnd(t.Status.State, k.watched[lane]))
		if f, failed := k.failed[lane]; failed && f.At.After(end.Time) {
			begin(f.At.Time, "gap")
		}
	}
	r.clusters[lane] = all
	if t.CreationTimestamp.Time.Before(r.From) {
		r.From = t.CreationTimestamp.Time
	}
}

func classOfEnd(state v1alpha1.TaskState, watched bool) string {
	switch {
	case state == v1alpha1.TaskStateFailed:
		return "gap"
	case state != v1alpha1.TaskStateSucceeded:
		return "missing"
	case watched:
		return "quiet"
	}
	return "new"
}

// conclude counts the clusters, lists the failures, and finds out until when to draw.
func (r *Run) conclude(k known, now time.Time) {
	count, last, ended := map[string]int{}, r.From, true
	for _, lane := range r.Members {
		all := r.clusters[lane]
		newest := all[len(all)-1]
		count[newest.class]++
		ended = ended && slices.Contains([]string{"new", "gap", "missing"}, newest.class)
		if newest.from.After(last) {
			last = newest.from
		}
		if f, failed := k.failed[lane]; failed {
			r.Good = false
			r.Steps = append(r.Steps, Step{At: f.At.Time, Pod: lane, Text: lane + " failed: " + f.Reason})
		}
	}
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	// How the last one ended is seen, too.
	if r.Until = last.Add(last.Sub(r.From)/20 + time.Second); !ended || r.Until.After(now) {
		r.Until = now
	}
	var counts []string
	for _, w := range clusterWords {
		if n := count[w.class]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, w.text))
		}
	}
	r.Summary = strings.Join(counts, ", ")
	if k.partial {
		r.Summary += " · not all that are watched or failed are known"
	}
	r.Summary += fmt.Sprintf(" · %.0f s", r.Until.Sub(r.From).Seconds())
}
