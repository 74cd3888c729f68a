// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"cmp"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// unreadyAfter is how long a member must not have served before it may be removed for that.
	unreadyAfter = 30 * time.Second
	// settledAfter is longer than the 5s for which etcd requires connections to have lasted before it changes the list.
	settledAfter = 6 * time.Second
	// steadyAfter is how long a learner must have been close behind before it gets its vote.
	steadyAfter = 2 * time.Second
	// reachedAfter is how long a voter must have been ready until clients reach it through the Service: kube-proxy writes its rules at most
	// once a second.
	reachedAfter = time.Second
	// reachedAnyway is how long to wait for a readiness probe at most: until then there may be two voters, which tolerate no failure.
	reachedAnyway = 5 * time.Second
	// maxGap is the longest time between two observations that counts as uninterrupted. etcd's connections may break and come back within
	// it.
	maxGap = 5 * time.Second
)

// Timers record how long conditions of each member have lasted, by its ID. They are kept only in memory, and any gap resets them.
type Timers struct {
	away    lasting.Timers[uint64, bool]
	serving lasting.Timers[uint64, run]
	close   lasting.Timers[uint64, run]
	votes   lasting.Timers[uint64, run]
	ready   lasting.Timers[uint64, run]
	// unnamed are the runs of members that were listed before they had published their names, and have not served since. A member may not
	// have been started yet.
	unnamed map[uint64]run
}

// run is one run of a member.
type run struct {
	pod     types.UID
	started time.Time
}

// Next returns the timers after another observation.
func (t Timers) Next(k Known) Timers {
	if len(k.List) == 0 {
		return Timers{}
	}
	away := map[uint64]bool{}
	serving, close, votes, ready := map[uint64]run{}, map[uint64]run{}, map[uint64]run{}, map[uint64]run{}
	unnamed := map[uint64]run{}
	for _, m := range k.List {
		r, lag := k.run(m)
		if now := k.pod(m); r == (run{}) && (m.Name == "" || t.isUnnamed(m.ID, now)) {
			unnamed[m.ID] = now
		}
		away[m.ID], serving[m.ID], close[m.ID] = r == run{}, cmp.Or(r, t.connected(k, m)), run{}
		if lag <= membership.MaxLag {
			close[m.ID] = r
		}
		if m.Learner {
			continue
		}
		votes[m.ID] = r
		if o := k.at(m); o != nil && o.Pod != nil && o.Pod.AllContainersReady {
			ready[m.ID] = r
		}
	}
	at := k.Snapshot.At
	return Timers{
		away: t.away.Next(away, at, maxGap), serving: t.serving.Next(serving, at, maxGap), close: t.close.Next(close, at, maxGap),
		votes: t.votes.Next(votes, at, maxGap), ready: t.ready.Next(ready, at, maxGap), unnamed: unnamed,
	}
}

// connected returns the run of a learner that does not serve yet but has published its name since it was added, which takes a connection to
// the leader. If the leader has sent it a snapshot, etcd opens the client port seven seconds later, once it has published its name again.
// Whether a learner that has served and no longer does is connected is unknown.
func (t Timers) connected(k Known, m etcdclient.Member) run {
	now := k.pod(m)
	if !m.Learner || m.Name == "" || now.started.IsZero() || !t.isUnnamed(m.ID, now) {
		return run{}
	}
	return now
}

// isUnnamed reports whether in this run a member was listed before it had published its name, and has not served since.
func (t Timers) isUnnamed(id uint64, now run) bool {
	was := t.unnamed[id]
	return was.pod != "" && was.pod == now.pod && (was.started.IsZero() || was == now)
}

// pod returns the run of a listed member by its pod, whether or not it serves; the zero run if there is no pod.
func (k Known) pod(listed etcdclient.Member) run {
	if o := k.at(listed); o != nil && o.Pod != nil {
		return run{o.Pod.UID, o.Pod.EtcdStarted}
	}
	return run{}
}

func (t Timers) unready(id uint64) bool { return t.away[id].Lasted(unreadyAfter) }

func (t Timers) settled(id uint64) bool { return t.serving[id].Lasted(settledAfter) }

func (t Timers) steady(id uint64) bool { return t.close[id].Lasted(steadyAfter) }

func (t Timers) reached(id uint64) bool {
	return t.ready[id].Lasted(reachedAfter) || t.votes[id].Lasted(reachedAnyway)
}
