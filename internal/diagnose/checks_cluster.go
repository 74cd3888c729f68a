// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"
)

// verb returns a command line of the plugin about the Etcd.
func (s *state) verb(verb string, flags ...string) string {
	return strings.Join(append([]string{"kubectl etcdtask", verb, s.Etcd, "-n", s.Namespace}, flags...), " ")
}

// edit returns a command line that edits the Etcd.
func (s *state) edit() string { return "kubectl edit etcd " + s.Etcd + " -n " + s.Namespace }

// lastReported is the source of what the status of the Etcd says. However old that is, it proves nothing about now.
const lastReported = "as the operator last reported"

// source returns the source of a figure about the quorum.
func (q *Quorum) source(of string) string {
	if q.Reported {
		return of + ", " + lastReported
	}
	return of
}

func noQuorum(s *state) result {
	q := s.Quorum
	if q == nil || q.Voters == 0 || q.Serving >= q.Size {
		return result{}
	}
	silent := 0
	for _, m := range s.members {
		if m.votes() && m.isSilent() {
			silent++
		}
	}
	return result{
		evidence: []Evidence{{Signal: "voters that serve", Value: float64(q.Serving), Threshold: float64(q.Size), Source: q.source(fmt.Sprintf("quorum of %d voters", q.Voters)), proves: !q.Reported || silent > q.Voters-q.Size}},
		advice: []Advice{
			{"Restore the voters that do not serve; status says why each of them does not.", s.verb("status")},
			{"Only if their data is lost for good, recover the cluster from one member or from a backup.", s.verb("recover")},
		},
	}
}

func (s *state) alarm(kind, signal string, advice ...Advice) result {
	var r result
	for _, a := range s.Alarms {
		if a.Kind == kind {
			r.evidence = append(r.evidence, Evidence{Member: a.Member, Signal: signal, Value: 1, Unit: yesOrNo, proves: true})
			r.advice = advice
		}
	}
	return r
}

func alarmNoSpace(s *state) result {
	r := s.alarm("NOSPACE", "alarm NOSPACE",
		Advice{"Remove old revisions and defragment; the task disarms the alarm.", s.verb("defrag", "--compaction")},
		Advice{"If the database is full of live keys, delete keys or raise spec.etcd.quota (etcd recommends at most 8 GiB).", ""})
	if len(r.evidence) > 0 {
		r.evidence = append(r.evidence, s.fullest()...)
	}
	return r
}

func alarmCorrupt(s *state) result {
	return s.alarm("CORRUPT", "alarm CORRUPT",
		Advice{"Do not write. Find out which member differs, and replace it from the others.", s.verb("status")})
}

func memberDown(s *state) result {
	var r result
	for _, m := range s.members {
		switch {
		case !m.votes():
			// It joins, and a task says how that is going.
		case m.Reported && len(m.Linearizable) > 0:
			// It serves by now.
		case s.isCutOff(m):
			// It runs, and its peers do not reach it.
		case s.Quorum != nil && s.Quorum.Voters > 0 && !m.Serving && (!m.Reported || !m.isSilent()):
			source := "by its answers, or else by its readiness probe"
			if m.Reported {
				source = lastReported
			}
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "serves", Value: 0, Unit: yesOrNo, Source: source, proves: !m.Reported})
		case m.isSilent():
			// The path is not the cause: the agent, in the same pod, answers.
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "reads without an answer in time, and there was none to anything", Value: float64(m.FailedReads), Source: "the agent in the same pod answers", proves: true})
		}
	}
	if len(r.evidence) > 0 {
		r.advice = []Advice{{"Find out why the member does not serve; status says what its pod lacks. Until it does, writes wait for the slowest of the others if only a quorum of them is left.", s.verb("status")}}
	}
	return r
}

// starts returns that a member has started in the measurement.
func (r reading) starts() []Evidence {
	if !r.restarted() {
		return nil
	}
	return []Evidence{{Member: r.Name, Signal: "etcd started again in the measurement", Value: 1, Unit: yesOrNo, Source: "until it was ready, it served nothing", proves: true}}
}

func restarts(s *state) result {
	if len(s.Tasks) > 0 {
		// Tasks replace and restart members.
		return result{}
	}
	var r result
	for _, m := range s.members {
		r.evidence = append(r.evidence, m.starts()...)
	}
	if len(r.evidence) == 0 {
		return r
	}
	return r.advise(
		Advice{"Find out why etcd ended: the last lines of its previous log say so.", "kubectl logs -n " + s.Namespace + " " + r.evidence[0].Member + " -c etcd --previous --tail 20"},
		Advice{"Its counters began at zero, so measure again: what made it slow before does not show.", s.verb("diagnose")})
}

// isSilent reports whether etcd answered nothing during the measurement, while the agent in its pod did.
func (r reading) isSilent() bool {
	return r.FailedReads > 0 && len(r.Pings)+len(r.Linearizable)+len(r.Serializable) == 0 && len(r.AgentPings) >= enoughForMedian
}

// behind returns how many entries a member has yet to apply of what it, or the leader, knows to be committed, at both samples.
func (s *state) behind(m reading) (first, second float64, known bool) {
	gap := func(of func(reading) *Status) (float64, bool) {
		status := of(m)
		if status == nil {
			return 0, false
		}
		committed := status.Committed
		for _, other := range s.members {
			if o := of(other); other.Leader && o != nil {
				committed = max(committed, o.Committed)
			}
		}
		return float64(committed - min(status.Applied, committed)), true
	}
	first, before := gap(func(r reading) *Status { return r.First.Status })
	second, after := gap(func(r reading) *Status { return r.Second.Status })
	return first, second, before && after
}

func followerBehind(s *state) result {
	var r result
	for _, m := range s.members {
		first, second, known := s.behind(m)
		if known && !m.Learner && min(first, second) > lagThreshold {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "committed entries that are not applied", Value: second, Threshold: lagThreshold, Source: lagSource, proves: true})
		}
		if n := m.grew("etcd_network_snapshot_send_success"); m.Leader && n >= 2 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "snapshots sent to peers", Value: n, Threshold: 2, Source: ours})
		}
	}
	if len(r.evidence) > 0 {
		r.advice = []Advice{{"Look at the disk and the network of the member that is behind. A leader keeps about 5,000 entries for those that catch up; further behind, it sends its whole database.", s.verb("diagnose", "--for 1m", "--logs")}}
	}
	return r
}

func learnerBehind(s *state) result {
	var r result
	for _, m := range s.members {
		first, second, known := s.behind(m)
		if !known || !m.Learner || second < first || second == 0 {
			continue
		}
		r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "entries that the learner is behind at the end of the measurement", Value: second, Threshold: first, Source: "at its beginning"})
		r.advice = []Advice{{"Look at the disk and the network of the learner. It gets its vote once it has caught up.", s.verb("diagnose", "--for 1m", "--logs")}}
	}
	return r
}

func elections(s *state) result {
	var r result
	allowed := s.handovers()
	for _, m := range s.members {
		r.evidence = append(r.evidence, m.leaderChanges(allowed)...)
		if a, b := m.First.Status, m.Second.Status; a != nil && b != nil && b.Term > a.Term && b.Term-a.Term >= uint64(allowed) {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "raft terms in the measurement", Value: float64(b.Term - a.Term), Threshold: allowed, Source: ours})
		}
		if n := m.Logs; n != nil && n.LeaderChanges >= 4 {
			r.evidence = append(r.evidence, Evidence{Member: m.Name, Signal: "elections in the log", Value: float64(n.LeaderChanges), Threshold: 4, Source: "etcd's mixin: 4 in 15 min"})
		}
	}
	if len(r.evidence) > 0 {
		r.advice = []Advice{{"If another cause was found, fix that first. Otherwise a member stood still for an election timeout, or the timeout is too short for this network: it takes at least ten round trips. Measure for longer, with the logs.", s.verb("diagnose", "--for 2m", "--logs")}}
	}
	return r
}

// handovers is how many changes of the leader are too many: a rollout hands leadership over, once for each leader that it replaces.
func (s *state) handovers() float64 {
	if len(s.Tasks) > 0 {
		return 3
	}
	return 1
}

func (r reading) leaderChanges(tooMany float64) []Evidence {
	return r.above("changes of the leader", r.grew("etcd_server_leader_changes_seen_total"), tooMany, "", ours)
}

// logged returns a count of lines in the log if it is high enough.
func (r reading) logged(signal string, count func(*Logs) int, enough int) []Evidence {
	if r.Logs == nil || count(r.Logs) < enough {
		return nil
	}
	return []Evidence{{Member: r.Name, Signal: signal, Value: float64(count(r.Logs)), Threshold: float64(enough), Source: ours}}
}

func clock(s *state) result {
	var r result
	for _, m := range s.members {
		r.evidence = append(r.evidence, m.logged("peers whose clock differs by more than a second, in the log", func(l *Logs) int { return l.Drift }, 1)...)
	}
	return r.advise(Advice{"Synchronize the clocks of the nodes of the members (NTP); status names the nodes. Clocks that differ endanger certificates and leases, and do not make etcd slow.", s.verb("status")})
}
