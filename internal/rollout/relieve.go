// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

// Surges reports whether a second member takes over from the only one before its pod is replaced. The agent of the second looks for the first
// where members are reached by the newest template, and etcd copies its database there: where that changes, it would look for ever.
func Surges(etcd *v1alpha1.Etcd, s *cluster.Snapshot) bool {
	if !etcd.Surges() || len(s.Ordinals) == 0 || s.Ordinals[0].Pod == nil || s.Ordinals[0].Pod.Endpoint == "" {
		return etcd.Surges()
	}
	pod := s.Ordinals[0].Pod
	at, err := url.Parse(pod.Endpoint)
	return err == nil && at.Port() == strconv.Itoa(int(etcd.ClientPort())) &&
		(at.Scheme == "https") == (etcd.ClientTLS() != nil) && (pod.PeerTLS != "" || etcd.PeerTLS() == nil)
}

// memberRelieved: a voter that serves is left to the change of members that brings in another one first (ADR 67). One that does not
// serve has nothing to be relieved of, and members cannot change without it.
func memberRelieved(s *state, step *Step) *Hold {
	i := step.Ordinals[0]
	votes := slices.ContainsFunc(s.Snapshot.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == i })
	if !s.surges() || !needsRelief(step) || !votes || !s.ordinal(i).Serves() || s.bringsAgent(i) {
		return nil
	}
	name := s.ordinal(i).Name
	return &Hold{Pod: name, Message: fmt.Sprintf("%s is the only member, and with surgePolicy %s a second one takes over first: see the task of type %s, which waits while the spec is suspended. To replace it at once, while writes stop, add %s to spec.overrideGuards of the rollout",
		name, v1alpha1.SurgeSingleMember, v1alpha1.MembershipChange, v1alpha1.GuardMemberRelieved)}
}

// agentPatience is how long an agent has for saying that it reports what it reads of members: it says so with each heartbeat.
const agentPatience = 2 * time.Minute

// bringsAgent reports whether the rollout brings the only member another agent, and the one that it has is too old to report what it
// reads. Nobody joins beside that, so the rollout would wait for what only the agent that it brings can do.
func (s *state) bringsAgent(i int) bool {
	o := s.ordinal(i)
	return len(s.Snapshot.Cluster.Voters) == 1 && o.Pod.AgentOutdated && o.Read == (cluster.Read{}) && lasting.Since(s.Timers.Running[o.Pod.UID].Since, s.now, agentPatience)
}

// surges reports whether a second member is to stand in. While several vote that are to become one, each of them can be spared, and members do
// not change before the rollout has ended.
func (s *state) surges() bool { return s.Surges && len(s.Snapshot.Cluster.Voters) <= 2 }

// needsRelief reports whether a step takes from a member what another one has to do instead.
func needsRelief(step *Step) bool { return step.disturbs() || step.Action == MoveLeader }

// relief returns the UID of the pod whose member is to be replaced by way of a second one; empty if there is none. A snapshot that comes
// before the rollout comes before the second member, too, and a version of etcd that is refused is refused for both. A canary is not
// waited for: the second member is it.
func (s *state) relief() types.UID {
	if !s.surges() || len(s.Snapshot.Ordinals) == 0 || !s.outdated(0) || s.overrides(v1alpha1.GuardMemberRelieved) || s.bringsAgent(0) {
		return ""
	}
	target, _ := targetVersion(s.Snapshot, s.outdated)
	_, refused := RefusedVersion(VersionsOf(s.Snapshot), target)
	if !needsRelief(s.candidate(0)) || refused != "" && !s.overrides(v1alpha1.GuardVersionsCompatible) {
		return ""
	}
	return s.ordinal(0).Pod.UID
}
