// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Input is all that a decision rests on.
type Input struct {
	Now time.Time
	// Policies by name.
	Policies map[string]*Policy
	// Covering are the names of the policies that select a namespace.
	Covering map[string][]string
	Ledger   *Ledger
	// Waiting are the tasks that only wait for the fleet.
	Waiting []Candidate
	// Asked is since when tasks have waited with each change, by their statuses: also for an operator that was there before.
	Asked map[string]time.Time
	// Failing are the namespaces of the Etcds that may ask for a change, of those in which the last one failed: it begins with them.
	Failing map[types.UID]string
	// Impaired are the clusters that lack a member or are being recovered.
	Impaired []Impaired
	// Served is how many slots each namespace has had, so that none gets all of them.
	Served map[string]float64
}

// Candidate is a task that only waits for the fleet.
type Candidate struct {
	Task      types.UID
	TaskName  string
	Namespace string
	Etcd      types.UID
	EtcdName  string
	// Change is the fingerprint of its change; empty if it changes nothing.
	Change string
	// Target is the fingerprint of the whole new template; empty if there is none.
	Target string
	Class  Class
	// Since is how long the Etcd has waited: a task that replaces another one keeps its place.
	Since time.Time
	// ChangeSince is when it began to wait with this change.
	ChangeSince time.Time
	// BackedUp: the backups of the Etcd do not fail.
	BackedUp bool
	// Alarm is the reason of the Etcd's condition AlarmRaised; empty if no alarm is raised.
	Alarm string
	// Beside is a task of the same Etcd that runs, which this one may begin beside; empty if none does.
	Beside types.UID
	// Wave is the namespace's value of the label that a policy orders by. OwnWave is the value of the Etcd, which its tenant sets: it only
	// counts within the namespace.
	Wave, OwnWave string
}

// Class of a task: those of a lower one go first.
type Class int

// The classes.
const (
	// Repair changes a cluster that lacks a member.
	Repair Class = iota + 1
	// Person was created by a person or their automation.
	Person
	// Automatic was created by the operator because a template changed.
	Automatic
	// Upkeep was created by the operator because of a schedule or a threshold.
	Upkeep
)

// Impaired is a cluster that lacks a member, or that is being recovered.
type Impaired struct {
	Etcd      types.UID
	Namespace string
	// Since is when it began.
	Since      time.Time
	Recovering bool
}

// Reason why a task does not start.
type Reason string

// The reasons. They are those of the condition Admitted.
const (
	WaitingForSlot   Reason = "WaitingForSlot"
	WaitingForWindow Reason = "WaitingForWindow"
	WaitingForCanary Reason = "WaitingForCanary"
	FleetPaused      Reason = "FleetPaused"
)

// Hold says why a task does not start.
type Hold struct {
	Reason  Reason
	Policy  string
	Message string
	// Next is when time alone may change that; zero if it cannot.
	Next time.Time
	// Share: its namespace has used up its share of the slots.
	Share bool
	// Late: it waits for a canary whose task has not ended, or that is watched for much longer than it has to be well.
	Late bool
}

// Decision is whether a task may take a slot now, and if not, why.
type Decision struct {
	// Hold is nil if it may.
	Hold *Hold
	// Canary: it is one, by at least one policy.
	Canary bool
	// Before is how many tasks are ahead of it in line.
	Before int
}
