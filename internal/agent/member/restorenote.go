// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import "strings"

// RestoreNote is a note on a volume that the agent must take a full snapshot before any delta, and why: later snapshots in the store may
// belong to another history. It is in RestoreNoteFile, beside the data directory, until that snapshot is in the store.
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

// ParseRestoreNote parses the text. A text that was not completely written, or by another version, counts as a restore.
func ParseRestoreNote(text string) RestoreNote {
	word, id, _ := strings.Cut(strings.TrimSpace(text), " ")
	return RestoreNote{FromBackup: word != recovered, ClusterID: id}
}

// Settled reports whether a full snapshot that any member of a cluster took is the one that is needed. That shows only after a recovery,
// which gives the cluster a new ID.
func (r RestoreNote) Settled(clusterID string) bool {
	return !r.FromBackup && r.ClusterID != "" && r.ClusterID == clusterID
}

// RestoreNoteFile returns the path of the RestoreNote; the file does not exist if no full snapshot is needed. It is on the volume, so that
// it outlives the pod.
func (s Shared) RestoreNoteFile() string { return s.DataDir() + ".restored" }
