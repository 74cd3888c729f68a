// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package cluster has the state of one etcd cluster as a value, on which every decision works. It imports no client, context or clock.
// Package observe makes a Snapshot from the answers of the API server and the members.
package cluster

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// MaxLag is the maximum number of committed raft entries that a serving member has yet to apply. It is the gap at which etcd itself refuses
// writes, and the number of entries that a leader keeps for members that catch up.
const MaxLag = 5000

// Snapshot is the state of one etcd cluster at one moment.
type Snapshot struct {
	// At is when it was taken.
	At          time.Time
	StatefulSet StatefulSet
	// Ordinals are the ordinals of the StatefulSet; the index is the ordinal. There are as many as replicas.
	Ordinals []Ordinal
	// Changing: the StatefulSet has another number of replicas than the Etcd asks for, or the members of a source cluster leave.
	Changing bool
	// Surplus are the names of the pods whose ordinal is not among the replicas.
	Surplus []string
	// LastVoters is how many voters the status of the Etcd records; 0 if none.
	LastVoters int
	Cluster    Cluster
}

// StatefulSet has the fields of the StatefulSet that decisions need.
type StatefulSet struct {
	Name string
	UID  types.UID
	// Generation counts the changes of its spec, and so every scaling.
	Generation int64
	// Observed: its controller has seen its current spec, so UpdateRevision is current.
	Observed       bool
	UpdateRevision string
	OnDelete       bool
	// Objection is why this operator must not replace the pods, such as another update strategy; empty if it may.
	Objection string
	// Foreign says who else manages it, and what to do: the operator changes nothing in its members. Empty if it is the operator's to work on.
	Foreign string
	// EtcdVersion is the tag of the etcd container's image in the template, without its v; empty if there is no tag.
	EtcdVersion string
	// AgentImage is the image of the agent's container in the template; empty if there is none.
	AgentImage string
	// OfDruid: its template was made by etcd-druid.
	OfDruid bool
	// HeldAtZeroBy is the UID of the task that holds it at zero replicas; empty if none does.
	HeldAtZeroBy types.UID
}

// Ordinal is one ordinal of the StatefulSet: its pod, and the member in it.
type Ordinal struct {
	// Name of the pod.
	Name string
	// Member is the name of the member, and of its lease.
	Member string
	// Pod is nil if there is none.
	Pod   *Pod
	Class v1alpha1.PodClass
	Role  v1alpha1.Role
	// MemberID is 0 if it is not known.
	MemberID uint64
	// Answers: the member answered.
	Answers bool
	// Serving: the member answered, knows the leader of the newest term, and is not far behind it.
	Serving bool
	// AppliedIndex is the raft index that the member has applied; 0 if it did not answer.
	AppliedIndex uint64
	// Lag is the number of committed raft entries that the member has not applied; 0 if it did not answer.
	Lag uint64
	// Versions that the member reports; empty if it did not answer.
	Versions Versions
	// Unproven: the class rests on readiness alone, and the member may be a learner although its probe passes.
	Unproven bool
	// LeaseRole is the role in the member's lease; RoleUnknown if there is no lease, or if the operator has not seen it renewed within the
	// last minute.
	LeaseRole v1alpha1.Role
	// Read is what the agent has read about the members that are about to be removed; the zero value if it was not requested
	// (observe.Observer.Reads), or if the agent has read nothing.
	Read Read
}

// Serves reports whether the member of the ordinal serves and its pod is not terminating. A terminating member may still serve, but not for
// long.
func (o *Ordinal) Serves() bool { return o.Serving && o.Class != v1alpha1.ClassTerminating }

// Pod has the fields of a pod that decisions need.
type Pod struct {
	UID             types.UID
	ResourceVersion string
	Revision        string
	// Updating: an update in place has begun, so the pod is at no revision.
	Updating bool
	Created  time.Time
	// GracePeriod is the termination grace period in the pod's spec.
	GracePeriod time.Duration
	// Endpoint of the member's client port at the pod's address; empty while the pod has no address.
	Endpoint string
	// EtcdVersion is the tag of the etcd container's image, without its v; empty if there is no tag.
	EtcdVersion string
	// Probed: the etcd container has a readiness probe. Without one, Ready only means that it is running.
	Probed bool
	// EtcdStarted is when the etcd container was started; zero if it is not running.
	EtcdStarted time.Time
	// Ready: the readiness probe of the etcd container passes, and the node controller has not marked the
	// pod as unready.
	Ready bool
	// AllContainersReady: every container's readiness probe passes, and the pod is ready. A PodDisruptionBudget counts this.
	AllContainersReady bool
	// BackupSidecarReady: the backup-restore container is ready, or there is none.
	BackupSidecarReady bool
	// Trouble is why the kubelet cannot start or keep running a container, in the kubelet's words.
	Trouble string
	// Refusal is why the agent keeps the member from starting; nil if it does not.
	Refusal *Refusal
	// Prepared: the agent has let the member start.
	Prepared bool
	// ListChanged: etcd has refused to start, since the member list is not the one that the agent has prepared it for, and does not run now.
	ListChanged bool
	// PeerTLS is how far the member is on its way to TLS among members: TLSPrepared, TLSOn, or empty.
	PeerTLS string
	// AgentOutdated: its agent has another image than the template.
	AgentOutdated bool
	// Authorities is a checksum of the CAs that the member read when it started; empty without TLS.
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
	// NodeLost: a controller of Kubernetes has marked the pod because its node is lost.
	NodeLost bool
	// Node that the pod is on.
	Node Node
	// VolumeTrouble is why the pod's replacement could not attach its volumes; empty if it could, or if that was not checked.
	VolumeTrouble string
	// VolumeGoes: a claim of the pod is being deleted, and goes with its data once no pod uses it.
	VolumeGoes bool
}

// ReachedAs reports whether a member is reached as the spec says: members that join look for it there.
func (p *Pod) ReachedAs(etcd *v1alpha1.Etcd) bool {
	at, err := url.Parse(p.Endpoint)
	return err == nil && at.Port() == strconv.Itoa(int(etcd.ClientPort())) &&
		(at.Scheme == "https") == (etcd.ClientTLS() != nil) && (p.PeerTLS != "" || etcd.PeerTLS() == nil)
}

// Node has the fields of a node that decisions need.
type Node struct {
	// Name is empty while the pod is on no node.
	Name string
	// Trouble is why pods on the node may be lost; empty if nothing suggests that.
	Trouble string
	// Cordoned: the node takes no new pods.
	Cordoned bool
}

// Cluster is what the members say about their cluster.
type Cluster struct {
	// Reachable: at least one member answered.
	Reachable bool
	// ID of the cluster; 0 if no member answered.
	ID uint64
	// Term is the newest raft term in which a leader is known.
	Term uint64
	// NewestTerm is the newest raft term that a member of the cluster reported. It only grows if a quorum has met, since members ask for
	// pre-votes before they begin a term.
	NewestTerm uint64
	// Revision is the newest revision that a member of the cluster reported; 0 if none answered.
	Revision int64
	// Leader is the ID of that leader; 0 if no member that answers knows one.
	Leader uint64
	// LeaderKnown: a member that answers knows a leader, so there is a quorum, or there was one an election timeout ago.
	LeaderKnown bool
	Voters      []Voter
	// Learners are listed and have no vote; etcd has one at a time.
	Learners []Learner
	// Alarms that the members which serve report: those of the cluster, ordered. A member that was cut off does not know which were disarmed.
	Alarms []Alarm
}

// Alarm is an alarm that etcd has raised.
type Alarm struct {
	// Kind is the name that etcd gives it, such as NOSPACE.
	Kind string
	// Member that it was raised for: the name of the member, its ID in hex if it is not listed any more or is not known, or empty if etcd does not know which.
	Member string
}

// Versions are the versions that a member reports.
type Versions struct {
	// Etcd is the version of its program, such as "3.6.16".
	Etcd string
	// Storage is the version of its data, which follows that of the cluster; empty before 3.6.
	Storage string
	// DowngradeTo is the target version of a downgrade that was enabled; empty if none was.
	DowngradeTo string
}

// Voter is a voting member.
type Voter struct {
	ID uint64
	// Name of the member; its ID in hex if it has no name.
	Name string
	// Ordinal of its pod; -1 for a foreign voter, which is not in this StatefulSet.
	Ordinal int
	Serving bool
	// Versions that a foreign voter reports; empty if it did not answer.
	Versions Versions
	// PeerURLs under which it is listed.
	PeerURLs []string
	// Endpoint at which a foreign voter answered, and its Lag, as for an ordinal; empty if it did not answer.
	Endpoint string
	Lag      uint64
}

// Learner is a listed member without a vote.
type Learner struct {
	ID uint64
	// Name of the member; empty until it has started once.
	Name string
	// PeerURLs under which it is listed.
	PeerURLs []string
}

// Replicas of the StatefulSet.
func (s *Snapshot) Replicas() int { return len(s.Ordinals) }

// ServingVoters is the number of voters that serve. An unknown voter counts as down.
func (s *Snapshot) ServingVoters() int {
	return s.CountVoters(func(v Voter) bool { return v.Serving })
}

// AnyServes reports whether a member serves, also one that does not vote or is terminating.
func (s *Snapshot) AnyServes() bool {
	return s.ServingVoters() > 0 || slices.ContainsFunc(s.Ordinals, func(o Ordinal) bool { return o.Serving })
}

// ServingVotersWithout is the number of voters that serve if the member of an ordinal does not.
func (s *Snapshot) ServingVotersWithout(ordinal int) int {
	return s.CountVoters(func(v Voter) bool { return v.Serving && v.Ordinal != ordinal })
}

// CountVoters returns how many voters satisfy a condition.
func (s *Snapshot) CountVoters(is func(Voter) bool) int { return count(s.Cluster.Voters, is) }

// CountOrdinals returns how many ordinals satisfy a condition.
func (s *Snapshot) CountOrdinals(is func(Ordinal) bool) int { return count(s.Ordinals, is) }

func count[E any](all []E, is func(E) bool) (n int) {
	for _, e := range all {
		if is(e) {
			n++
		}
	}
	return n
}

// Quorum is the number of voters in a quorum.
func (s *Snapshot) Quorum() int { return quorum.Size(len(s.Cluster.Voters)) }

// HasQuorum reports whether the serving voters are a quorum.
func (s *Snapshot) HasQuorum() bool {
	return quorum.Exists(s.ServingVoters(), len(s.Cluster.Voters))
}

// Participating is the number of ordinals whose member participates.
func (s *Snapshot) Participating() int {
	return s.CountOrdinals(func(o Ordinal) bool { return o.Class == v1alpha1.ClassParticipating })
}

// Leader is the ordinal that leads; -1 if none does, or if a foreign member leads.
func (s *Snapshot) Leader() int {
	return slices.IndexFunc(s.Ordinals, func(o Ordinal) bool { return o.Role == v1alpha1.RoleLeader })
}
