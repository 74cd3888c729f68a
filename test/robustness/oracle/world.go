// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// world is what is known of a cluster over time.
type world struct {
	cluster Cluster
	acts    []Act
	// samples by member, in order of time; unanswered ones are not in it.
	samples map[uint64][]Sample
	// member of each pod, over time.
	pods map[string][]Sample
	// lists are the samples with voters.
	lists []Sample
	// times of all samples, answered or not.
	times []time.Duration
	// containers are what the kubelet reports.
	containers *Containers
}

func newWorld(cluster Cluster, acts []Act, containers *Containers, samples []Sample) *world {
	w := &world{cluster: cluster, acts: acts, containers: containers, samples: map[uint64][]Sample{}, pods: map[string][]Sample{}}
	samples = slices.Clone(samples)
	sort.SliceStable(samples, func(i, j int) bool { return samples[i].At < samples[j].At })
	measureLag(samples)
	for _, s := range samples {
		w.times = append(w.times, s.At)
		if !s.Answered {
			continue
		}
		w.samples[s.Member] = append(w.samples[s.Member], s)
		w.pods[s.Pod] = append(w.pods[s.Pod], s)
		if len(s.Voters) > 0 {
			w.lists = append(w.lists, s)
		}
	}
	return w
}

// before returns the samples of a list up to a time.
func before(all []Sample, at time.Duration) []Sample {
	return all[:sort.Search(len(all), func(i int) bool { return all[i].At > at })]
}

// sighted reports whether any member had been asked just before a time.
func (w *world) sighted(at time.Duration) bool {
	n := sort.Search(len(w.times), func(i int) bool { return w.times[i] > at })
	return n > 0 && at-w.times[n-1] <= moment
}

// votersAt returns the voters by the newest list of a member that knows a leader; if there is none, by the newest list.
func (w *world) votersAt(at time.Duration) []uint64 {
	lists := before(w.lists, at)
	for i := len(lists) - 1; i >= 0; i-- {
		if lists[i].Serves() {
			return lists[i].Voters
		}
	}
	if len(lists) > 0 {
		return lists[len(lists)-1].Voters
	}
	return nil
}

// memberOf returns the member of a pod, 0 if it has never answered.
func (w *world) memberOf(pod string, at time.Duration) uint64 {
	seen := before(w.pods[pod], at)
	if len(seen) == 0 {
		return 0
	}
	return seen[len(seen)-1].Member
}

// membersOf returns the members of the pods that an act removes. Of a StatefulSet, that is all voters but those that run in pods of
// another one.
func (w *world) membersOf(act Act, voters []uint64) []uint64 {
	switch act.Kind {
	case DeletePodsOf:
		return voters
	case DeleteSet:
		return slices.DeleteFunc(slices.Clone(voters), func(id uint64) bool {
			set := w.setOf(id, act.At)
			return set != "" && set != act.Name
		})
	}
	var ids []uint64
	for _, pod := range act.Pods {
		if id := w.memberOf(pod, act.At); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// scene is a cluster at the time of an act: how many voters can serve, and how many can without the members that it
// removes.
type scene struct {
	voters, quorum int
	// known and knownRest are what the operator can know, now and nowRest what is.
	known, knownRest, now, nowRest int
	// present are the pods of removed members that answer, and running those of which the kubelet says that they run, too.
	present, running []string
	// ended: the kubelet has reported that their etcd has, and they do not answer.
	ended bool
	// why names the voters that do not serve.
	why string
}

func (w *world) scene(act Act, voters, removed []uint64) scene {
	s := scene{voters: len(voters), quorum: len(voters)/2 + 1}
	var missing []string
	for _, id := range voters {
		known, now := w.servedWithin(id, act.At, sight), w.servedWithin(id, act.At, moment)
		rest := !slices.Contains(removed, id)
		s.known, s.now = s.known+one(known), s.now+one(now)
		s.knownRest, s.nowRest = s.knownRest+one(known && rest), s.nowRest+one(now && rest)
		if !now && rest {
			missing = append(missing, w.describe(id, act.At))
		}
	}
	for _, id := range removed {
		if pod, answers := w.answers(id, act.At); answers {
			s.present = append(s.present, pod)
		}
	}
	s.running, s.ended = slices.Clone(s.present), len(s.present) == 0
	for _, pod := range w.podsOf(act) {
		uid, runs, reported := w.containers.runs(pod, act.At)
		s.ended = s.ended && reported && !runs
		if runs && !slices.Contains(s.running, pod) && !w.isRemoved(pod, uid, act.At) {
			s.running = append(s.running, pod)
		}
	}
	s.why = strings.Join(missing, ", ")
	return s
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// servedWithin reports whether a member served within a time before another, and has not been removed since. What the
// operator has removed counts at once: it knows. What somebody else has removed counts after that time.
func (w *world) servedWithin(id uint64, at, window time.Duration) bool {
	seen := before(w.samples[id], at)
	for i := len(seen) - 1; i >= 0 && at-seen[i].At <= window; i-- {
		if seen[i].Serves() {
			return !w.removedSince(seen[i], at, window)
		}
	}
	return false
}

// removedSince reports whether the pod of a sample was removed, so that the member will not serve for long.
func (w *world) removedSince(s Sample, at, window time.Duration) bool {
	for _, act := range w.acts {
		if act.At >= at {
			return false
		}
		if !removes(act, s.Pod) || !w.hits(act, s) || act.Kind == UpdatePod && !w.disturbs(act, s, at) {
			continue
		}
		if act.Perhaps && s.At-act.At > reaction {
			continue // it still serves: it was not removed
		}
		if act.User == w.cluster.Operator || window < sight || at-act.At > sight {
			return true
		}
	}
	return false
}

// hits reports whether an act removes the very pod of a sample: another one of that name came later.
func (w *world) hits(act Act, s Sample) bool {
	if act.UID != "" {
		return act.UID == s.UID
	}
	seen := before(w.pods[s.Pod], act.At)
	return len(seen) > 0 && seen[len(seen)-1].UID == s.UID
}

func removes(act Act, pod string) bool {
	switch act.Kind {
	case DeletePod, EvictPod, UpdatePod, ScaleSet:
		return slices.Contains(act.Pods, pod)
	case DeleteSet:
		return isMember(pod, act.Name)
	case DeletePodsOf:
		return true
	}
	return false
}

// answers reports whether a member answered just before a time, and the pod that it is in.
func (w *world) answers(id uint64, at time.Duration) (string, bool) {
	seen := before(w.samples[id], at)
	if len(seen) == 0 {
		return "", false
	}
	last := seen[len(seen)-1]
	return last.Pod, at-last.At <= moment && !w.removedSince(last, at, moment)
}

func (w *world) describe(id uint64, at time.Duration) string {
	seen := before(w.samples[id], at)
	for i := len(seen) - 1; i >= 0; i-- {
		if seen[i].Serves() {
			return fmt.Sprintf("%s last served %s before%s", seen[i].Pod, (at - seen[i].At).Round(time.Millisecond), seen[len(seen)-1].lagging())
		}
	}
	return fmt.Sprintf("member %x never served", id)
}

// lagging says that a member is far behind, if it is.
func (s Sample) lagging() string {
	if s.behind <= lag {
		return ""
	}
	return fmt.Sprintf(" and lacks %d entries", s.behind)
}

// measureLag notes in samples, which are in order of time, how far members are behind the leader that they know, by what that
// one said last.
func measureLag(samples []Sample) {
	leaders := map[uint64]Sample{}
	for i, s := range samples {
		if s.Answered && s.Member == s.Leader {
			leaders[s.Member] = s
		}
		if leader, known := leaders[s.Leader]; known && s.At-leader.At <= sight && leader.Committed > s.Applied {
			samples[i].behind = leader.Committed - s.Applied
		}
	}
}

// quorumWithin reports whether there was a quorum at any time between two.
func (w *world) quorumWithin(from, to time.Duration) bool {
	from = max(from, to-memory)
	for at := from; at <= to; at += 100 * time.Millisecond {
		voters := w.votersAt(at)
		serving := 0
		for _, id := range voters {
			serving += one(w.servedWithin(id, at, moment))
		}
		if len(voters) > 0 && serving > len(voters)/2 {
			return true
		}
	}
	return false
}

// stoppedBy reports whether the operator has stopped all members for the outage before and has started none since, or has stopped
// and started them.
func (w *world) stoppedBy(o Outage, at time.Duration) (stopped, started bool) {
	for _, act := range w.acts {
		if act.User == w.cluster.Operator && act.Kind == ScaleSet && act.At >= o.From && act.At < at {
			started = started || stopped && !act.stopsAll()
			stopped = act.stopsAll()
		}
	}
	return stopped, started
}

// podsOf returns the pods that an act removes. Of a StatefulSet, that is all.
func (w *world) podsOf(act Act) []string {
	switch act.Kind {
	case DeleteSet:
		return beyond(act.Name, 0)
	case DeletePodsOf:
		return w.cluster.allPods()
	}
	return act.Pods
}

// isRemoved reports whether a pod was removed before a time.
func (w *world) isRemoved(pod, uid string, at time.Duration) bool {
	return slices.ContainsFunc(w.acts, func(a Act) bool {
		return a.At < at && a.Kind != UpdatePod && removes(a, pod) && (a.UID == uid || a.UID == "" && a.At >= w.containers.since(uid))
	})
}

// removedLately returns the act by which the operator has removed another pod a short while before.
func (w *world) removedLately(act Act) (Act, bool) {
	i := slices.IndexFunc(w.acts, func(a Act) bool {
		other := (a.Kind == DeletePod || a.Kind == EvictPod) && !slices.Equal(a.Pods, act.Pods)
		return other && a.User == w.cluster.Operator && a.At < act.At && act.At-a.At < patience
	})
	if i < 0 {
		return Act{}, false
	}
	return w.acts[i], true
}
