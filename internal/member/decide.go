// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import "fmt"

// Data is what the data directory of a member holds.
type Data int

// What a data directory may hold.
const (
	// DataNone: no write-ahead log. The member never ran here, or was interrupted before its first entry.
	DataNone Data = iota
	// DataPresent: a write-ahead log, and the directory of its snapshots and database.
	DataPresent
	// DataDamaged: a write-ahead log alone.
	DataDamaged
)

// Answer is what the other members, by a linearizable read, say of a member.
type Answer int

// The answers.
const (
	// AnswerNone: no answer. There is no quorum, no way to it, or no other member.
	AnswerNone Answer = iota
	// AnswerNeverStarted: they list the member, and it has never run.
	AnswerNeverStarted
	// AnswerStarted: they list the member, and it has run before.
	AnswerStarted
	// AnswerNotListed: they serve without the member.
	AnswerNotListed
)

// Action is how a member starts.
type Action string

// The actions.
const (
	// Start with the data that is there.
	Start Action = "Start"
	// Bootstrap a new cluster together with the other initial members.
	Bootstrap Action = "Bootstrap"
	// Join the living cluster, which lists the member and has never seen it.
	Join Action = "Join"
	// Refuse to start.
	Refuse Action = "Refuse"
)

// Facts are what the decision rests on.
type Facts struct {
	// Member is the name of the member.
	Member string
	// PeerURL is its own.
	PeerURL string
	// DataDir is where its data should be.
	DataDir string
	Data    Data
	// ClusterID is the recorded ID of the cluster; empty when none is recorded.
	ClusterID string
	// Others are asked only when there is no data.
	Others Answer
}

// Decision says how a member starts, and why.
type Decision struct {
	Action Action
	// Why is a sentence for people; of a refusal it says what to do.
	Why string
}

// Decide decides how a member starts. A member that has lost its data has also lost the votes it gave and
// the entries it acknowledged: started again under its old identity it could elect a leader that lacks
// committed entries. So a member without data starts only where it is certain that it never ran.
//
// The recorded cluster ID may lag behind by the time that the operator takes to record it and the kubelet
// to mount it. It is asked only when no quorum answers, and then etcd has the last word: before it
// bootstraps it asks the peers once more, without a quorum, and refuses when one of them has seen it.
func Decide(f Facts) Decision {
	switch {
	case f.Data == DataPresent:
		return Decision{Start, "the member has its data"}
	case f.Data == DataDamaged:
		return refuse("member %s has a write-ahead log in %s and no snapshot directory beside it: its data is damaged; %s", f.Member, f.DataDir, replace(f))
	case f.Others == AnswerStarted:
		return refuse("member %s has no data in %s, and the other members have seen it run: its data was lost; %s", f.Member, f.DataDir, replace(f))
	case f.Others == AnswerNotListed:
		return refuse("member %s has no data in %s, and the cluster serves without listing its peer URL: add it with \"etcdctl member add %s --peer-urls=%s\"", f.Member, f.DataDir, f.Member, f.PeerURL)
	case f.Others == AnswerNeverStarted:
		return Decision{Join, "the cluster serves, lists the member and has never seen it run"}
	case f.ClusterID != "":
		return refuse("member %s has no data in %s, and cluster %s, which exists, has no quorum that could say whether the member ever ran: if the other members come back this resolves itself, otherwise the cluster has to be recovered; starting empty would make a second cluster", f.Member, f.DataDir, f.ClusterID)
	default:
		return Decision{Bootstrap, "there is no data, no recorded cluster and no other member that serves"}
	}
}

func refuse(format string, args ...any) Decision {
	return Decision{Refuse, fmt.Sprintf(format, args...)}
}

// replace says how a member without usable data comes back.
func replace(f Facts) string {
	return fmt.Sprintf("while the others have a quorum, remove it with \"etcdctl member remove\", empty %s, and add it with \"etcdctl member add %s --peer-urls=%s\"", f.DataDir, f.Member, f.PeerURL)
}
