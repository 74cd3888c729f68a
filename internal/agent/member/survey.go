// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

// SurveyState is the state of a data directory in a survey.
type SurveyState string

// The states of a survey.
const (
	// SurveyNone: no write-ahead log.
	SurveyNone SurveyState = "None"
	// SurveyPresent: data that a cluster can be recovered from.
	SurveyPresent SurveyState = "Present"
	// SurveyDamaged: unusable data.
	SurveyDamaged SurveyState = "Damaged"
)

// Survey describes the data directory of a stopped member. For damaged data, it has what could be read.
type Survey struct {
	State SurveyState `json:"state"`
	// Damage is what is wrong with damaged data.
	Damage string `json:"damage,omitempty"`
	// ClusterID and MemberID that the data belongs to, in hex.
	ClusterID string `json:"clusterID,omitempty"`
	MemberID  string `json:"memberID,omitempty"`
	// Voters are the IDs, in hex, of the voters, as far as the member knows. Only a quorum of them can continue with their
	// data; learners do not count.
	Voters []string `json:"voters,omitempty"`
	// CommittedVoters are the voters after the entry at CommitIndex: those whose votes the member counts when it starts. Empty if they are the
	// same, or if the agent is too old to report them.
	CommittedVoters []string `json:"committedVoters,omitempty"`
	// Removed: the member has applied its own removal from the cluster. Its data lacks what was written after that.
	Removed bool `json:"removed,omitempty"`
	// SetAside are the directories with data that was set aside and may be the only copy. They are listed only if the data directory itself
	// is empty or damaged.
	SetAside []string `json:"setAside,omitempty"`
	// Kept are the newest directories with data from before recoveries and restores, whatever is in the data directory, and those of the
	// task that is undone.
	Kept []string `json:"kept,omitempty"`
	// Needs is how many bytes on each member's volume a cluster takes that is rebuilt from a directory in Kept, or Unreadable. It has the
	// directories that were set aside for the task that is undone, or else for the newest one. It is empty if nothing is undone (KeptForNone), or
	// if the agent is too old to report it.
	Needs map[string]int64 `json:"needs,omitempty"`
	// KeptRevisions is the highest revision that the data in such a directory may reach, with every entry of its log. It lacks directories
	// that cannot be read, and is empty as Needs is.
	KeptRevisions map[string]int64 `json:"keptRevisions,omitempty"`
	// Free is how many bytes are free on the volume. Agents that do not report it are too old for what counts it, a Restore.
	Free int64 `json:"free,omitempty"`
	// LastTerm and LastIndex are those of the last entry of the write-ahead log. A member may have acknowledged all entries
	// up to it, so the member with the highest position, by term first, has the most.
	LastTerm  uint64 `json:"lastTerm,omitempty"`
	LastIndex uint64 `json:"lastIndex,omitempty"`
	// CommitIndex is the commit index that the member last wrote.
	CommitIndex uint64 `json:"commitIndex,omitempty"`
	// AppliedIndex is the index of the last entry that the database contains; 0 if the agent is too old to report it.
	AppliedIndex uint64 `json:"appliedIndex,omitempty"`
	// Revision of the database. Entries of the log that it lacks may have later ones.
	Revision int64 `json:"revision,omitempty"`
	// Hash is the checksum of the database, as in "etcdutl snapshot status". Members with the same applied entries may have
	// different hashes: part of a database is specific to its member.
	Hash uint32 `json:"hash,omitempty"`
	// Bytes is the size of the database.
	Bytes int64 `json:"bytes,omitempty"`
}

// Unreadable is the value in Survey.Needs for kept data that cannot be read: nothing is rebuilt from it.
const Unreadable = -1

// MaxRevision returns the highest revision that the data may reach with every entry of its log: an entry adds at most one.
func (s Survey) MaxRevision() int64 {
	return s.Revision + int64(s.LastIndex-min(s.AppliedIndex, s.LastIndex))
}

// LogSize is what etcd allocates for a new log, in bytes: two files.
const LogSize = 2 * 64_000_000

// NeedsOfRebuild returns the space, in bytes, that it takes to rebuild a data directory from a database and the entries of a log of the given
// sizes: a copy of the database, which grows by what is replayed, and the files of a new log.
func NeedsOfRebuild(database, log int64) int64 { return database + 2*log + LogSize }

// NeedsOfRestore returns the space, in bytes, that it takes to make a data directory from a snapshot with a database of the given size: the
// snapshot is downloaded before a database is made of it.
func NeedsOfRestore(database int64) int64 { return database + NeedsOfRebuild(database, 0) }
