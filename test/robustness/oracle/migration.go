// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"time"
)

// Migration is a time in which the members of one StatefulSet join those of another.
type Migration struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// CutOver is when the source was given up; 0 if the migration was.
	CutOver time.Duration `json:"cutOver,omitempty"`
	// Source and Target are the StatefulSets.
	Source string `json:"source"`
	Target string `json:"target"`
}

// cutOverBy reports whether the source had been given up.
func (m Migration) cutOverBy(at time.Duration) bool { return m.CutOver != 0 && at >= m.CutOver }

// LeftBehind is a member of a migration that is over and is still listed.
const LeftBehind Kind = "left behind in the list"

// judgeMigrating judges a change during a migration by what docs/membership.md promises of one; nothing, if it is as promised. Until the
// cut-over, the source stays as it is and keeps the quorum on its own. After it, one of its members that serves leaves only once every
// member of the target votes.
func (w *world) judgeMigrating(c change, migrations []Migration) (Verdict, string) {
	i := slices.IndexFunc(migrations, func(m Migration) bool { return m.From <= c.at && c.at <= m.To })
	if i < 0 {
		return "", ""
	}
	m, of := migrations[i], w.setOf(c.id, c.at)
	cutOver := m.cutOverBy(c.at)
	switch {
	case c.to == unlisted && of == m.Source && !cutOver:
		return Unsafe, fmt.Sprintf("it is a member of the source, %s, which stays as it is until the cut-over", m.Source)
	case c.to == unlisted && of == m.Source && w.servedWithin(c.id, c.at, moment):
		if n := w.votersOf(m.Target, c); n < w.cluster.Members {
			return Unsafe, fmt.Sprintf("it serves, and %d of %d members of the target, %s, vote", n, w.cluster.Members, m.Target)
		}
	case c.to == voter && of != m.Source && !cutOver:
		sources, voters := w.votersOf(m.Source, c), len(c.voters)+1
		if sources < voters/2+1 {
			return Unsafe, fmt.Sprintf("with it, the source has %d of %d voters, and keeps the quorum until the cut-over", sources, voters)
		}
	}
	return "", ""
}

// votersOf is how many of the voters before a change are members of a StatefulSet.
func (w *world) votersOf(set string, c change) (n int) {
	for _, id := range c.voters {
		n += one(w.setOf(id, c.at) == set)
	}
	return n
}

// setOf returns the StatefulSet in whose pod a member has answered; empty if it has not.
func (w *world) setOf(id uint64, at time.Duration) string { return w.cluster.setOf(w.nameOf(id, at)) }

// leftBehind judges the member list at the end of each migration: nobody is listed of the Etcd that is deleted.
func (w *world) leftBehind(migrations []Migration) (all []Judgement) {
	for _, m := range migrations {
		gone := m.Target
		if m.CutOver != 0 {
			gone = m.Source
		}
		i := slices.IndexFunc(w.lists, func(s Sample) bool { return s.At > m.To && s.Serves() })
		if i < 0 {
			continue
		}
		s := w.lists[i]
		for _, id := range slices.Concat(s.Voters, s.Learners) {
			if w.setOf(id, s.At) == gone {
				all = append(all, Judgement{
					Act:     Act{At: s.At, User: w.cluster.Operator, Kind: LeftBehind, Name: w.nameOf(id, s.At)},
					Verdict: Unsafe, Why: fmt.Sprintf("StatefulSet %s is gone, and %s lists its member", gone, s.Pod),
				})
			}
		}
	}
	return all
}
