// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import "strings"

// Restored is why a member's agent must take a full snapshot before any delta: later snapshots in the store may belong to another
// history. It is kept as text beside the data directory, in RestoredFile, until the snapshot is in the store.
type Restored struct {
	// FromBackup: the member itself was restored from a backup.
	FromBackup bool
	// ClusterID is the ID of the recovered cluster, in hex; empty outside of a recovery.
	ClusterID string
}

// First words of the text.
const (
	restored  = "restored"
	recovered = "recovered"
)

// String returns the text.
func (r Restored) String() string {
	word := recovered
	if r.FromBackup {
		word = restored
	}
	return strings.TrimSpace(word + " " + r.ClusterID)
}

// ParseRestored reads the text. One that was not completely written, or by another version, is a restore.
func ParseRestored(text string) Restored {
	word, id, _ := strings.Cut(strings.TrimSpace(text), " ")
	return Restored{FromBackup: word != recovered, ClusterID: id}
}

// Settled reports whether a full snapshot of a cluster, which any of its members took, is the one that is needed. A cluster has a
// new ID after each recovery, but not after a restore.
func (r Restored) Settled(clusterID string) bool {
	return !r.FromBackup && r.ClusterID != "" && r.ClusterID == clusterID
}

// RestoredFile is the file with the text of Restored; it does not exist if no full snapshot is needed. It is on the volume: a pod
// that is replaced before the snapshot was taken still needs it.
func (s Shared) RestoredFile() string { return s.DataDir() + ".restored" }
