// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// RecoverySource is what a cluster is recovered from.
type RecoverySource string

// The sources.
const (
	// RecoverFromData: the data of the member that the Recovery names.
	RecoverFromData RecoverySource = "Data"
	// RecoverFromBackup: the newest backup, restored by that member.
	RecoverFromBackup RecoverySource = "Backup"
)

// Recovery tells the members how their cluster restarts after quorum loss, or wakes up without volumes: as a cluster of one
// member with a new ID, which the others join as learners.
type Recovery struct {
	// Task is the UID of the task that recovers the cluster, or the ID of the hibernation that it wakes up from.
	Task string `json:"task"`
	// TaskName is the task's name, for people; empty for a hibernation.
	TaskName string `json:"taskName,omitempty"`
	// Member is the name of the member that starts first.
	Member string `json:"member"`
	// Source of its data.
	Source RecoverySource `json:"source"`
	// PreviousClusterID is the ID, in hex, of the cluster that lost quorum or was hibernated.
	PreviousClusterID string `json:"previousClusterID"`
	// EarlierClusterIDs are those of clusters whose recovery was not completed. A member may still have their data.
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// Revision of the final snapshot that a cluster wakes up from: a backup with less is not restored. It is 0 after quorum
	// loss: then the newest backup is used.
	Revision int64 `json:"revision,omitempty"`
}

// wakes reports whether the cluster wakes up from its final snapshot.
func (r Recovery) wakes() bool { return r.Revision > 0 }

// LeavesBehind reports whether a cluster is one that the recovery replaces.
func (r Recovery) LeavesBehind(clusterID string) bool {
	return clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID)
}

// ParseRecovery parses the value of KeyRecovery; nil if it is empty. An incomplete value is an error: a member that ignored
// it could continue with data of the previous cluster.
func ParseRecovery(value []byte) (*Recovery, error) {
	if len(bytes.TrimSpace(value)) == 0 {
		return nil, nil
	}
	r := &Recovery{}
	if err := yaml.UnmarshalStrict(value, r); err != nil {
		return nil, fmt.Errorf("reading %s of the shared configuration: %w", KeyRecovery, err)
	}
	for _, f := range []struct{ name, value string }{
		{"task", r.Task}, {"member", r.Member}, {"previousClusterID", r.PreviousClusterID},
	} {
		if f.value == "" {
			return nil, fmt.Errorf("reading %s of the shared configuration: it has no %s", KeyRecovery, f.name)
		}
	}
	if r.Source != RecoverFromData && r.Source != RecoverFromBackup || r.wakes() && r.Source != RecoverFromBackup {
		return nil, fmt.Errorf("reading %s of the shared configuration: there is no source %q", KeyRecovery, r.Source)
	}
	return r, nil
}

// Encode returns the value of KeyRecovery.
func (r Recovery) Encode() (string, error) {
	value, err := yaml.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding a recovery: %w", err)
	}
	return string(value), nil
}

// token returns the token of the recovered cluster, which gives it a new ID.
func (r Recovery) token(previous string) string { return previous + "-" + r.Task }
