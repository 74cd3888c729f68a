// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import "strings"

// RestoreNote is why a member's agent must take a full snapshot before any delta: later snapshots in the store may belong to another
// history. It is kept as text beside the data directory, in RestoreNoteFile, until the snapshot is in the store.
type RestoreNote struct {
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
func (r RestoreNote) String() string {
	word := recovered
	if r.FromBackup {
		word = restored
	}
	return strings.TrimSpace(word + " " + r.ClusterID)
}

// ParseRestoreNote reads the text. One that was not completely written, or by another version, is a restore.
func ParseRestoreNote(text string) RestoreNote {
	word, id, _ := strings.Cut(strings.TrimSpace(text), " ")
	return RestoreNote{FromBackup: word != recovered, ClusterID: id}
}

// Settled reports whether a full snapshot of a cluster, which any of its members took, is the one that is needed. A cluster has a
// new ID after each recovery, but not after a restore.
func (r RestoreNote) Settled(clusterID string) bool {
	return !r.FromBackup && r.ClusterID != "" && r.ClusterID == clusterID
}

// RestoreNoteFile is the file with the text of a RestoreNote; it does not exist if no full snapshot is needed. It is on the volume: a pod
// that is replaced before the snapshot was taken still needs it.
func (s Shared) RestoreNoteFile() string { return s.DataDir() + ".restored" }
