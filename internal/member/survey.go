// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

// SurveyState is what a survey has found in a data directory.
type SurveyState string

// What a survey may find.
const (
	// SurveyNone: no write-ahead log.
	SurveyNone SurveyState = "None"
	// SurveyPresent: data from which a cluster can begin anew.
	SurveyPresent SurveyState = "Present"
	// SurveyDamaged: data that does not serve for it.
	SurveyDamaged SurveyState = "Damaged"
)

// Survey is what is in the data directory of a member that has been stopped. Of damaged data it says what could be
// read of it.
type Survey struct {
	State SurveyState `json:"state"`
	// Damage is what is wrong with damaged data.
	Damage string `json:"damage,omitempty"`
	// ClusterID and MemberID that the data belongs to, in hex.
	ClusterID string `json:"clusterID,omitempty"`
	MemberID  string `json:"memberID,omitempty"`
	// Voters are the IDs, in hex, of the members that vote, by all that the member has. Only voters that are a quorum of
	// them can go on with their data: a learner counts for nothing.
	Voters []string `json:"voters,omitempty"`
	// LastTerm and LastIndex are those of the last entry of the write-ahead log. A member may have acknowledged all
	// entries up to it, so the member that is most advanced by them, first by term, has the most.
	LastTerm  uint64 `json:"lastTerm,omitempty"`
	LastIndex uint64 `json:"lastIndex,omitempty"`
	// CommitIndex is the index up to which the member knew that entries are committed when it last wrote so.
	CommitIndex uint64 `json:"commitIndex,omitempty"`
	// Revision of the database. Entries of the log that it lacks may lead further.
	Revision int64 `json:"revision,omitempty"`
	// Hash is the checksum of the database, as "etcdutl snapshot status" has it. Members whose databases have
	// applied the same entries need not have the same: part of a database is its member's own.
	Hash uint32 `json:"hash,omitempty"`
	// Bytes is the size of the database.
	Bytes int64 `json:"bytes,omitempty"`
}
