// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// word is what a class of stretches looks like in characters, and what it means.
type word struct{ class, cell, text string }

type words []word

var (
	podWords = words{
		{"old", "░", "ready, old revision"}, {"new", "█", "ready, new revision"}, {"unready", "▒", "not ready"}, {"terminating", "╱", "terminating"}, {"missing", "╌", "no pod"},
	}
	clusterWords = words{{"old", "░", "waiting"}, {"unready", "▒", "running"}, {"quiet", "▓", "watched"}, {"new", "█", "succeeded"}, {"gap", "╳", "failed"}, {"missing", "╌", "aborted"}}
)

// of returns the word of a class; an empty one if there is none.
func (all words) of(class string) word {
	for _, w := range all {
		if w.class == class {
			return w
		}
	}
	return word{cell: " "}
}

// words are those of the lanes of a run.
func (r Run) words() words {
	if r.clusters != nil {
		return clusterWords
	}
	return podWords
}

// stretch is a period in which a lane has the same appearance.
type stretch struct {
	from, to     time.Time
	class, title string
}

// stretches returns the spans of a pod, merged where they look the same. A hanging member counts as unready from the
// moment that it hangs, not only when its readiness probe fails.
func (r Run) stretches(pod string) []stretch {
	all := r.clusters[pod]
	add := func(from, to time.Time, class, title string) {
		if n := len(all); n > 0 && all[n-1].class == class {
			all[n-1].to = to
			return
		}
		all = append(all, stretch{from, to, class, title})
	}
	for _, span := range r.Pods[pod] {
		title := string(span.Class)
		if span.Revision != "" {
			title += ", revision " + span.Revision
		}
		class, from := classOf(span.Class, span.Revision == r.Revision), span.From
		if pod == r.Frozen && class == "old" && r.FrozenAt.Before(span.To) {
			add(from, r.FrozenAt, class, title)
			class, from, title = "unready", r.FrozenAt, frozen
		}
		add(from, span.To, class, title)
	}
	return all
}

// frozen is the title of a hanging member.
const frozen = "frozen"

// label returns a word that explains a bar.
func (st stretch) label() string {
	switch {
	case st.title == frozen:
		return frozen
	case st.class == "terminating":
		return "terminating: the kubelet gives it 30 s"
	}
	return ""
}

func classOf(class v1alpha1.PodClass, updated bool) string {
	switch class {
	case v1alpha1.ClassParticipating:
		if updated {
			return "new"
		}
		return "old"
	case v1alpha1.ClassTerminating:
		return "terminating"
	case v1alpha1.ClassMissing:
		return "missing"
	}
	return "unready"
}
