// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// Replacement is a deleted pod and its replacement.
type Replacement struct {
	Pod string
	// Deleted is when the pod was seen with a deletionTimestamp, or gone at once.
	Deleted time.Time
	// Back is when the new pod was both ready and serving; zero if it is not.
	Back time.Time
	// Overhead is the time from when the last replaced pod was back until this one was deleted: the reaction time of the
	// controller. Zero for the first, and if it did not wait.
	Overhead time.Duration
	// Led reports that this pod's member led when the last replaced pod was back: Overhead may then include a
	// change of leadership.
	Led bool
}

// Replacements returns the pods that were deleted between two moments, in order.
func (r Report) Replacements(from, until time.Time) []Replacement {
	serving := servingSince(r.Sightings)
	var all []Replacement
	for pod, spans := range r.Pods {
		for i, s := range spans {
			if i == 0 || !isGoing(s) || isGoing(spans[i-1]) || s.From.Before(from) || s.From.After(until) {
				continue
			}
			all = append(all, Replacement{Pod: pod, Deleted: s.From, Back: back(spans[i+1:], serving)})
		}
	}
	slices.SortFunc(all, func(a, b Replacement) int { return a.Deleted.Compare(b.Deleted) })
	reigns := Reigns(r.Sightings, r.Stopped)
	for i := 1; i < len(all); i++ {
		if back := all[i-1].Back; !back.IsZero() && all[i].Deleted.After(back) {
			all[i].Overhead = all[i].Deleted.Sub(back)
			all[i].Led = leaderAt(reigns, back) == all[i].Pod
		}
	}
	return all
}

// leaderAt returns the pod that led at a moment; empty if none did.
func leaderAt(reigns []Reign, at time.Time) string {
	for _, reign := range reigns {
		if !at.Before(reign.From) && at.Before(reign.To) {
			return reign.Pod
		}
	}
	return ""
}

// Settled returns when the last pod became ready at a revision; false while one is not.
func (r Report) Settled(revision string) (time.Time, bool) {
	var settled time.Time
	for _, spans := range r.Pods {
		last := spans[len(spans)-1]
		if last.Class != v1alpha1.ClassParticipating || last.Revision != revision {
			return time.Time{}, false
		}
		if last.From.After(settled) {
			settled = last.From
		}
	}
	return settled, len(r.Pods) > 0
}

func isGoing(s Span) bool {
	return s.Class == v1alpha1.ClassTerminating || s.Class == v1alpha1.ClassMissing
}

// back returns when the first pod of the spans that became ready also served.
func back(spans []Span, serving map[types.UID]time.Time) time.Time {
	for _, s := range spans {
		if s.Class != v1alpha1.ClassParticipating {
			continue
		}
		since, ok := serving[s.UID]
		switch {
		case !ok:
			return time.Time{}
		case since.After(s.From):
			return since
		}
		return s.From
	}
	return time.Time{}
}

// servingSince returns when each pod first knew a leader.
func servingSince(all []Sighting) map[types.UID]time.Time {
	since := map[types.UID]time.Time{}
	for _, s := range all {
		if _, known := since[s.UID]; !known && s.Leader != 0 {
			since[s.UID] = s.At
		}
	}
	return since
}
