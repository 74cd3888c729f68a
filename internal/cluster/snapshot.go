// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package cluster is the state of one etcd cluster as a value: what every decision works on. It imports no client, no
// context and no clock. Package observe makes a Snapshot of what the API server and the members say.
package cluster

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// MaxLag is how many committed raft entries a member that serves may have yet to apply. It is the gap at which etcd itself
// refuses writes, and the number of entries that a leader keeps for members that catch up.
const MaxLag = 5000

// Snapshot is the state of one etcd cluster at one moment.
type Snapshot struct {
	// At is when it was taken.
	At          time.Time
	StatefulSet StatefulSet
	// Ordinals are the ordinals of the StatefulSet; the index is the ordinal. There are as many as replicas.
	Ordinals []Ordinal
	// Changing: the StatefulSet has another number of replicas than the Etcd is to have.
	Changing bool
	// Surplus are the names of the pods whose ordinal is not among the replicas.
	Surplus []string
	Cluster Cluster
}

// StatefulSet is what matters of the StatefulSet.
type StatefulSet struct {
	Name string
	UID  types.UID
	// Generation counts the changes of its spec, and so every time that it was scaled.
	Generation int64
	// Observed: its controller has seen its current spec, so UpdateRevision is current.
	Observed       bool
	UpdateRevision string
	OnDelete       bool
	// Objection is why this operator must not replace the pods, another strategy among other reasons; empty if it may.
	Objection string
	// EtcdVersion is that of the tag of the etcd container's image in the template, without its v; empty when there is no tag.
	EtcdVersion string
	// AgentImage is that of the agent's container in the template; empty if there is none.
	AgentImage string
	// OfDruid: its template was made by etcd-druid.
	OfDruid bool
	// HeldAtZeroBy is the UID of the task that holds it at zero replicas; empty when none does.
	HeldAtZeroBy types.UID
}

// Ordinal is one ordinal of the StatefulSet: its pod, and the member in it.
type Ordinal struct {
	// Name of the pod.
	Name string
	// Member is the name of the member, and of its lease.
	Member string
	// Pod is nil when there is none.
	Pod   *Pod
	Class v1alpha1.PodClass
	Role  v1alpha1.Role
	// MemberID is 0 when it is not known.
	MemberID uint64
	// Answers: the member answered.
	Answers bool
	// Serving: the member answered, knows the leader of the newest term, and is not far behind it.
	Serving bool
	// AppliedIndex is the raft index that the member has applied; 0 when it did not answer.
	AppliedIndex uint64
	// Lag is the number of raft entries that are committed and that the member has not applied; 0 when it did not answer.
	Lag uint64
	// Versions that the member reports; empty when it did not answer.
	Versions Versions
	// Unproven: by readiness alone, the member may be a learner although its probe passes.
	Unproven bool
	// LeaseRole is the role in the member's lease; RoleUnknown when there is no lease, or when the
	// operator has not seen it renewed within the last minute.
	LeaseRole v1alpha1.Role
	// Read is what the agent has read of the members that are about to be removed; the zero value unless it was asked for
	// (observe.Observer.Reads), or if the agent has read nothing.
	Read Read
}

// Serves reports whether the member of the ordinal serves and is not terminating: then it may serve now, and does not a moment later.
func (o *Ordinal) Serves() bool { return o.Serving && o.Class != v1alpha1.ClassTerminating }

// Pod is what matters of a pod.
type Pod struct {
	UID             types.UID
	ResourceVersion string
	Revision        string
	// Updating: an update in place has begun, so the pod is at no revision.
	Updating bool
	Created  time.Time
	// GracePeriod is how long the pod may take to terminate by its own spec.
	GracePeriod time.Duration
	// Endpoint of the member's client port at the pod's address; empty while the pod has none.
	Endpoint string
	// EtcdVersion is that of the tag of the etcd container's image, without its v; empty when there is no tag.
	EtcdVersion string
	// Probed: the etcd container has a readiness probe. Without one, Ready says no more than that it is running.
	Probed bool
	// EtcdStarted is when the etcd container was started; zero when it does not run.
	EtcdStarted time.Time
	// Ready: the readiness probe of the etcd container passes, and the node controller has not marked the
	// pod as unready.
	Ready bool
	// AllContainersReady: every container's readiness probe passes. A PodDisruptionBudget counts this.
	AllContainersReady bool
	// BackupSidecarReady: the backup-restore container is ready, or there is none.
	BackupSidecarReady bool
	// Trouble is why the kubelet cannot start or keep a container, in its own words.
	Trouble string
	// Refusal is why the agent keeps the member from starting; nil when it does not.
	Refusal *Refusal
	// Prepared: the agent has let the member start.
	Prepared bool
	// PeerTLS is how far the member is on its way to TLS among members: TLSPrepared, TLSOn, or empty.
	PeerTLS string
	// AgentOutdated: the image of its agent is not that of the template.
	AgentOutdated bool
	// Authorities is a checksum of the CAs that the member has read when it started; empty without TLS.
	Authorities string
	// OfDruid: the pod was made by etcd-druid.
	OfDruid bool
	// Claims are the names of the pod's PersistentVolumeClaims.
	Claims []string
	// Finalizers keep the pod after it has terminated.
	Finalizers []string
	// Disrupted: something other than the operator is about to remove the pod, or has removed it: an eviction,
	// a preemption, a taint (condition DisruptionTarget).
	Disrupted bool
	// Ended: the kubelet has ended the pod for good, with phase Failed or Succeeded.
	Ended bool
	// NodeLost: the node controller, or another of Kubernetes' controllers, has marked the pod because its node is lost.
	NodeLost bool
	// Node that the pod is on.
	Node Node
	// VolumeTrouble is why the pod's replacement could not have its volumes as they are; empty when it could, or when that
	// was not checked.
	VolumeTrouble string
	// VolumeGoes: a claim of the pod is being deleted, and goes with its data once no pod uses it.
	VolumeGoes bool
}

// Node is what matters of a node.
type Node struct {
	// Name is empty while the pod is on none.
	Name string
	// Trouble is why pods on the node may be lost, or empty.
	Trouble string
	// Cordoned: the node takes no new pods.
	Cordoned bool
}

// Cluster is what etcd says of itself.
type Cluster struct {
	// Reachable: at least one member answered.
	Reachable bool
	// ID of the cluster; 0 when no member answered.
	ID uint64
	// Term is the newest raft term in which a leader is known.
	Term uint64
	// NewestTerm is the newest raft term that a member of the cluster answered with. It grows only where a quorum has met: members ask
	// for votes before they begin a term.
	NewestTerm uint64
	// Revision is the newest one that a member of the cluster answered with; 0 when none did.
	Revision int64
	// Leader is the ID of that leader; 0 when no member that answers knows one.
	Leader uint64
	// LeaderKnown: a member that answers knows a leader, so there is a quorum, or was one an election timeout
	// ago.
	LeaderKnown bool
	Voters      []Voter
}

// Versions are what a member says of its own version.
type Versions struct {
	// Etcd is the version of its program, such as "3.6.16".
	Etcd string
	// Storage is the version of its data, which follows that of the cluster; empty before 3.6.
	Storage string
	// DowngradeTo is the version that a downgrade of the cluster was enabled to; empty when none was.
	DowngradeTo string
}

// Voter is a voting member.
type Voter struct {
	ID uint64
	// Name of the member; its ID in hex when it has none.
	Name string
	// Ordinal of its pod; -1 for a foreign voter, which is not in this StatefulSet.
	Ordinal int
	Serving bool
	// Versions that a foreign voter reports; empty when it did not answer.
	Versions Versions
	// PeerURLs under which the others know it.
	PeerURLs []string
	// Endpoint at which a foreign voter answered, and Lag, as an ordinal has it; empty when it did not answer.
	Endpoint string
	Lag      uint64
}

// Replicas of the StatefulSet.
func (s *Snapshot) Replicas() int { return len(s.Ordinals) }

// ServingVoters is the number of voters that serve. A voter of which nothing is known counts as down.
func (s *Snapshot) ServingVoters() int {
	return s.CountVoters(func(v Voter) bool { return v.Serving })
}

// ServingVotersWithout is the number of voters that serve if the member of an ordinal does not.
func (s *Snapshot) ServingVotersWithout(ordinal int) int {
	return s.CountVoters(func(v Voter) bool { return v.Serving && v.Ordinal != ordinal })
}

// CountVoters returns of how many voters something is true.
func (s *Snapshot) CountVoters(is func(Voter) bool) int { return count(s.Cluster.Voters, is) }

// CountOrdinals returns of how many ordinals something is true.
func (s *Snapshot) CountOrdinals(is func(Ordinal) bool) int { return count(s.Ordinals, is) }

func count[E any](all []E, is func(E) bool) (n int) {
	for _, e := range all {
		if is(e) {
			n++
		}
	}
	return n
}

// Quorum is the number of voters that a quorum takes.
func (s *Snapshot) Quorum() int { return quorum.Size(len(s.Cluster.Voters)) }

// HasQuorum reports whether the serving voters are a quorum.
func (s *Snapshot) HasQuorum() bool {
	return quorum.Exists(s.ServingVoters(), len(s.Cluster.Voters))
}

// Participating is the number of ordinals whose member participates.
func (s *Snapshot) Participating() int {
	return s.CountOrdinals(func(o Ordinal) bool { return o.Class == v1alpha1.ClassParticipating })
}

// Leader is the ordinal that leads; -1 when none does, or a foreign member.
func (s *Snapshot) Leader() int {
	return slices.IndexFunc(s.Ordinals, func(o Ordinal) bool { return o.Role == v1alpha1.RoleLeader })
}
