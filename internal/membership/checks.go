// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strings"
)

// MaxLag is how many raft entries a learner may have yet to apply when it gets its vote, and a member that leadership goes to.
// etcd promotes at nine tenths of the leader's index, which may be a million entries behind; with two voters, every write waits
// for the slower one.
const MaxLag = 100

func listKnown(s *state, _ *Step) string {
	if len(s.Members) > 0 {
		return ""
	}
	return "no member answers the operator with a member list: members change only while a quorum answers. If the quorum is lost, restore it first"
}

func revisionObserved(s *state, _ *Step) string {
	if s.Observed {
		return ""
	}
	return "the StatefulSet controller has not observed the newest spec of the StatefulSet: if this persists, check kube-controller-manager"
}

func changeObserved(s *state, _ *Step) string {
	if s.Pending == "" {
		return ""
	}
	return s.Pending + ", and the member list does not show the result yet"
}

func nothingElseActs(s *state, _ *Step) string {
	if s.Acting == "" {
		return ""
	}
	return s.Acting + ": members change after that"
}

// goalOdd lets a migration pass through even sizes until its cut-over, and leaves as many sources as there are: their number is
// not ours to choose.
func goalOdd(s *state, _ *Step) string {
	n, sources := s.finally(), s.sources()
	migrates := s.Goal.KeepSources && (s.Goal.Size == 0 || sources > 0 && sources >= s.Sources)
	switch {
	case n == 0:
		return "no voter would remain: keep at least one member, or the source cluster"
	case n%2 == 0 && !migrates:
		return fmt.Sprintf("%d voters tolerate no more failures than %d: choose a size that leads to %d or %d", n, n-1, n-1, n+1)
	}
	return ""
}

func membersKnown(s *state, _ *Step) string {
	for i := range s.Members {
		switch m := &s.Members[i]; {
		case m.Owner == Unknown:
			return undeclared(m, s.whereNamed())
		case m.Owner == Ours && s.listed(m.Ordinal) != m:
			return fmt.Sprintf("two members are listed for ordinal %d (%x and %x): remove the one that does not run with etcdctl", m.Ordinal, s.listed(m.Ordinal).ID, m.ID)
		}
	}
	return ""
}

// whereNamed says where a member of the source can be named; empty after the cut-over. The API server refuses it while members join.
func (s *state) whereNamed() string {
	const field = "spec.etcd.bootstrapWithExistingCluster"
	switch {
	case s.Sources == 0 || !s.Goal.KeepSources:
		return ""
	case s.Goal.Size == 0:
		return field
	}
	return field + " once BootstrappedWithExistingCluster is True, or while spec.replicas is 0"
}

// undeclared says what to do about a foreign member, which may be a source that can be named.
func undeclared(m *Member, where string) string {
	if m.Elsewhere != "" {
		return fmt.Sprintf("%s (%x) has the name of a member of this StatefulSet, and other peer URLs (%s): a second Etcd of this name may have joined the source cluster, and its members are left alone. Delete one of the two Etcds; or, if it is this one's, name its URL in spec.etcd.additionalAdvertisedURLs", m.Name, m.ID, m.Elsewhere)
	}
	say := fmt.Sprintf("%s (%x) is not a member of this StatefulSet and was not declared: remove it (etcdctl member remove %x)", m.Name, m.ID, m.ID)
	if where != "" {
		say += "; or if it belongs to the source cluster, name it in " + where
	}
	return say
}

// dataElsewhere asks about the data of another cluster before the pod goes, since only its agent can say what the volume holds. Once its claim
// was deleted, as the message asks for, only the pod keeps the volume.
func dataElsewhere(s *state, step *Step) string {
	switch o := s.ordinal(step.Ordinal); {
	case o.Store == Other && !o.Terminating:
		return dataOfAnotherCluster(step.Ordinal)
	case step.Action == DeleteClaim && step.Ordinal >= s.Replicas && o.Pod:
		return fmt.Sprintf("the pod of ordinal %d is not gone yet, and its claim goes after it", step.Ordinal)
	case step.Action == DeleteClaim && s.serving < s.quorumWith(0):
		return fmt.Sprintf("%d of %d voters serve, which is not a quorum: the data of ordinal %d may be needed", s.serving, len(s.voters), step.Ordinal)
	}
	return ""
}

func dataOfAnotherCluster(ordinal int) string {
	return fmt.Sprintf("the volume of ordinal %d holds the data of another cluster: copy what you need of it, and delete its claim", ordinal)
}

func oneLearner(s *state, _ *Step) string {
	if m := s.learner(); m != nil {
		return fmt.Sprintf("%s is a learner, and etcd has one at a time", m.Name)
	}
	return ""
}

// addressesSettled holds no pod back whose member is listed: it has its data, and looks for no other one. With an even number of voters, no rollout
// restarts one (VotersOdd), so there is nothing to wait for.
func addressesSettled(s *state, _ *Step) string {
	if !s.Readdressed || len(s.voters)%2 == 0 || restore(s) != nil {
		return ""
	}
	return "a rollout that changes how members are reached (clientPort, or TLS for clients or peers) comes before further members, which would not find the present ones. If none begins, see TLSReady and the errors in the status of the Etcd"
}

func storeFree(s *state, step *Step) string {
	switch o := s.ordinal(step.Ordinal); {
	case step.Action == ScaleUp:
		return o.Foreign
	case o.Terminating:
		return fmt.Sprintf("the claim of ordinal %d is being deleted", step.Ordinal)
	case o.Ending:
		return fmt.Sprintf("the pod of ordinal %d is being deleted, and its member joins from the next one", step.Ordinal)
	case o.Store == Free:
		return ""
	case o.Store == Left:
		return fmt.Sprintf("the volume of ordinal %d holds the data of a removed member, which its agent sets aside first", step.Ordinal)
	case o.Store == Other:
		return dataOfAnotherCluster(step.Ordinal)
	default:
		return fmt.Sprintf("the agent of ordinal %d has not reported yet that its volume is free: if this persists, see the events and the log of its pod", step.Ordinal)
	}
}

// joinAnnounced closes the seconds in which the only member could lose its volume and start in a pod that lists it alone: it would restore
// a backup, as a cluster of its own beside the newcomer. What an agent has read once, no later pod of its member mounts an older state of.
func joinAnnounced(s *state, step *Step) string {
	m := s.alone()
	if m == nil || s.ordinal(step.Ordinal).Told && m.Read {
		return ""
	}
	return unread(m, "that another member joins")
}

// unread says that an agent does not know something yet, and why.
func unread(m *Member, what string) string {
	if m.Silent {
		return fmt.Sprintf("the agent of %s has to know %s, and has never reported what it reads. If this persists for two minutes, it is older than this operator: roll out a newer image of it. That rollout waits for no second member, so the writes of a single one stop until it is back", m.Name, what)
	}
	return fmt.Sprintf("the agent of %s has not read yet %s: the kubelet passes that on within about a minute", m.Name, what)
}

func othersServing(s *state, _ *Step) string {
	var down []string
	for i := range s.voters {
		if m := &s.voters[i]; !m.Serving && !s.leaves(m) {
			down = append(down, m.Name)
		}
	}
	switch len(down) {
	case 0:
		return ""
	case 1:
		return down[0] + " does not serve: members change while every other one serves"
	default:
		return strings.Join(down, ", ") + " do not serve: members change while every other one serves"
	}
}

// quorumKept is the promise. A new voter counts as one that does not serve, since a write may have to wait for it; only where
// there is one voter the two have to serve together.
func quorumKept(s *state, step *Step) string {
	n, serving := len(s.voters), s.serving
	if serving < s.quorumWith(0) {
		return fmt.Sprintf("%d of %d voters serve, which is not a quorum", serving, n)
	}
	switch m := s.member(step.Member); {
	case step.Action == PromoteLearner:
		n++
		if n == 2 {
			serving++
		}
	case step.Action == RemoveMember && !m.Learner:
		n--
		if m.Serving {
			serving--
		}
	}
	if needed := s.quorumWith(n - len(s.voters)); serving < needed {
		return fmt.Sprintf("of %d voters, only %d would be certain to serve, and a quorum is %d", n, serving, needed)
	}
	return ""
}

// membersSettled is etcd's own rule (--strict-reconfig-check), which looks at connections: what it would refuse is not asked.
// Older releases add a member only while every voter is connected; one that is alone needs no connection. etcd promotes whatever the age
// of a connection, but would then refuse the next removal. Where the number of voters is even, a vote ends that, and is not waited for.
func membersSettled(s *state, step *Step) string {
	settled, needed := s.settled(), 0
	switch m := s.member(step.Member); {
	case step.Action == AddLearner && len(s.voters) > 1:
		needed = max(s.serving, min(len(s.voters), s.quorumWith(1)))
	case step.Action == PromoteLearner && !m.Settled && len(s.voters)%2 > 0:
		return m.Name + " has not been connected for long enough yet: etcd would refuse the next change"
	case step.Action == RemoveMember && !m.Learner && m.Serving:
		needed = s.quorumWith(-1) + 1
	}
	if settled >= needed {
		return ""
	}
	return fmt.Sprintf("%d of %d voters have been connected for long enough, and etcd wants %d", settled, len(s.voters), needed)
}

func unreadyConfirmed(s *state, step *Step) string {
	if m := s.member(step.Member); !m.Learner && !m.Serving && !m.Unready {
		return m.Name + " does not serve: it is removed if it stays down"
	}
	return ""
}

func learnerCaughtUp(s *state, step *Step) string {
	switch m := s.member(step.Member); {
	case !m.Serving:
		return m.Name + " does not serve yet: if this persists, see the events and the log of its pod"
	case m.Lag > MaxLag:
		return fmt.Sprintf("%s is %d raft entries behind, and gets its vote at %d: if the distance does not shrink, check its disk and network", m.Name, m.Lag, MaxLag)
	case !m.Steady:
		return m.Name + " has just caught up, and gets its vote if it keeps up"
	}
	return ""
}

func sourcesKeepQuorum(s *state, step *Step) string {
	sources := s.sources()
	if !s.Goal.KeepSources || sources == 0 || sources >= s.quorumWith(1) {
		return ""
	}
	return fmt.Sprintf("the source cluster has %d of %d voters, and would not be a quorum on its own beside one more: %s gets its vote at the cut-over", sources, len(s.voters), s.member(step.Member).Name)
}
