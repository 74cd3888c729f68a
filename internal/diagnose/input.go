// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import "time"

// Input is everything that a diagnosis rests on.
type Input struct {
	// Namespace and Etcd are the names that the advice has in its commands.
	Namespace, Etcd string
	// Hibernated: the Etcd has no members because it is hibernated.
	Hibernated bool
	// Window is the time between the two samples.
	Window  time.Duration
	Members []Member
	// Quorum is nil if it is not known.
	Quorum *Quorum
	// Alarms that etcd has raised.
	Alarms []Alarm
	// Tasks of the Etcd that were running during the measurement.
	Tasks []Task
	// HotPrefixes are the prefixes of keys that were written most, the most events first, and Events is how many events there were in all;
	// 0 if that was not asked for.
	HotPrefixes []HotPrefix
	Events      int64
	// Counted says who counted them; nil if that was not asked for, or could not be done.
	Counted *Counted
	// HotKeys are the whole keys that were written most; nil if they were not asked for.
	HotKeys []HotPrefix
	// AtRest is what the newest full snapshot has; nil if that was not asked for.
	AtRest *AtRest
	// Missing are the signals that could not be had.
	Missing []Missing
}

// Counted is who counted events.
type Counted struct {
	// Member that was watched, or whose agent was asked.
	Member  string `json:"member"`
	Watched bool   `json:"watched"`
}

// String names it in a sentence.
func (c Counted) String() string {
	if c.Watched {
		return "the watch on " + c.Member
	}
	return "the agent of " + c.Member
}

// HotPrefix is how much was written below a prefix of keys.
type HotPrefix struct {
	Prefix string `json:"prefix"`
	Events int64  `json:"events"`
	Bytes  int64  `json:"bytes"`
}

// AtRest is what a full snapshot has.
type AtRest struct {
	Snapshot string        `json:"snapshot"`
	Created  time.Time     `json:"created"`
	Age      time.Duration `json:"-"`
	// Database is the size of its file, Keys are those that are present, and Stored is the bytes of all revisions of keys.
	Database int64 `json:"databaseBytes"`
	Keys     int64 `json:"keys"`
	Stored   int64 `json:"storedBytes"`
	// Prefixes below which most is stored, the largest first.
	Prefixes []StoredPrefix `json:"prefixes"`
}

// StoredPrefix is how much is stored below a prefix of keys.
type StoredPrefix struct {
	Prefix string `json:"prefix"`
	// Keys that are present, their Bytes with those of their values, and the Largest of them.
	Keys    int64 `json:"keys"`
	Bytes   int64 `json:"bytes"`
	Largest int64 `json:"largestBytes"`
	// Revisions are present and earlier values, Deletions those that are not compacted, and Stored is the bytes of all of these.
	Revisions int64 `json:"revisions"`
	Deletions int64 `json:"deletions"`
	Stored    int64 `json:"storedBytes"`
}

// Quorum is how many voters serve.
type Quorum struct {
	Voters, Serving, Size int
	// Reported: it is what the operator last wrote in the status of the Etcd. No member was asked.
	Reported bool
}

// Alarm of etcd.
type Alarm struct {
	Kind string
	// Member is the name of the member that raised it, or its ID in hex.
	Member string
}

// Task is a task of the Etcd that ran in the measurement.
type Task struct {
	Name, Type string
	// Ended: it no longer runs.
	Ended bool
}

// Missing is a signal that could not be had.
type Missing struct {
	Signal Signal `json:"signal"`
	// Member is empty if it is missing of all.
	Member string `json:"member,omitempty"`
	// Why it could not be had, and Remedy, the right or setting that would give it.
	Why    string `json:"why"`
	Remedy string `json:"remedy,omitempty"`
}

// Signal is a source of figures.
type Signal string

// The signals.
const (
	// SignalMetrics are two scrapes of a member's metrics.
	SignalMetrics Signal = "metrics"
	// SignalStatus is what a member says of itself over gRPC, with the timed reads.
	SignalStatus Signal = "status"
	// SignalReported is what the status of the Etcd says of a member.
	SignalReported Signal = "status of the Etcd"
	// SignalReads are the timed reads.
	SignalReads Signal = "reads"
	// SignalPod is the pod of a member: limits, and how etcd ended last.
	SignalPod Signal = "pod"
	// SignalLogs is the log of etcd.
	SignalLogs Signal = "logs"
	// SignalKubelet is what the kubelet measures: throttling, pressure, volumes.
	SignalKubelet Signal = "kubelet"
	// SignalPrefixes are the prefixes that are written most.
	SignalPrefixes Signal = "hot prefixes"
	// SignalKeys are the whole keys that are written most.
	SignalKeys Signal = "hot keys"
	// SignalAtRest are the prefixes below which most is stored.
	SignalAtRest Signal = "large prefixes"
	// SignalAgent are the metrics of the agent.
	SignalAgent Signal = "agent"
)

// Member is what was measured of one member. What could not be had is zero.
type Member struct {
	Name            string
	Leader, Learner bool
	// NoVoter: its pod is that of no voter. It prepares to join, or is a learner.
	NoVoter bool
	// RoleUnknown: nothing says what its role is.
	RoleUnknown bool
	Serving     bool
	// Reported: Serving is what the operator last wrote in the status of the Etcd.
	Reported bool
	Pod      *Pod
	// First and Second are the samples, at the begin and the end of the window. Elapsed is the time between both, which is longer if the
	// member was late to answer; 0 if it is that of all.
	First, Second Sample
	Elapsed       time.Duration
	// Linearizable and Serializable are how long reads of a key took that need not exist, and Pings how long etcd took to answer an HTTP
	// request that touches neither disk nor peers. The shortest of the pings is what the path to the member takes. AgentPings are those
	// of another process in the same pod, the agent: they tell a busy path from a process that does not run.
	Linearizable, Serializable, Pings, AgentPings []time.Duration
	// FailedReads is the number of reads without an answer in time.
	FailedReads int
	Logs        *Logs
}

// Sample is what a member said at one moment.
type Sample struct {
	// Metrics of etcd, Agent those of the agent, and Kubelet those of the kubelet about the etcd container, its volume and its node.
	Metrics, Agent, Kubelet Metrics `json:"-"`
	Status                  *Status
}

// Status is what a member said of itself over gRPC.
type Status struct {
	Version            string
	Term               uint64
	Committed, Applied uint64
}

// Pod is what the API server says about the pod of a member.
type Pod struct {
	Node string
	// Ended is how the etcd container ended last, such as OOMKilled; and how long ago that was, and how long it has been running.
	Ended    string
	EndedAgo time.Duration
	Running  time.Duration
	// CPULimit is in cores, MemLimit in bytes; 0 without a limit.
	CPULimit float64
	MemLimit int64
}
