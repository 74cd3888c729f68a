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

// RecoverySource is what a cluster that has lost its quorum begins anew from.
type RecoverySource string

// The sources.
const (
	// RecoverFromData: the data of the member that the recovery names.
	RecoverFromData RecoverySource = "Data"
	// RecoverFromBackup: the newest backup, restored by that member.
	RecoverFromBackup RecoverySource = "Backup"
)

// Recovery tells the members of a cluster that has lost its quorum, or that wakes up without volumes, how it begins
// anew, as a cluster of one with an ID of its own. The others join it as learners.
type Recovery struct {
	// Task is the UID of the task that recovers the cluster, or the ID of the hibernation that it wakes up from.
	Task string `json:"task"`
	// TaskName is the task's name, for people; empty for a hibernation.
	TaskName string `json:"taskName,omitempty"`
	// Member is the name of the one that begins.
	Member string `json:"member"`
	// Source of what it begins with.
	Source RecoverySource `json:"source"`
	// PreviousClusterID is the ID, in hex, of the cluster that has lost its quorum, or that was put to sleep.
	PreviousClusterID string `json:"previousClusterID"`
	// EarlierClusterIDs are those of clusters that lost their quorum before, where a recovery did not come to its end. A
	// member may still have data of one.
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// Revision of the final snapshot that a cluster wakes up from: what leads to less is not restored. It is 0 where
	// a cluster has lost its quorum: then the newest backup is the best that there is.
	Revision int64 `json:"revision,omitempty"`
}

// wakes tells whether the cluster wakes up from its final snapshot.
func (r Recovery) wakes() bool { return r.Revision > 0 }

// leavesBehind tells whether a cluster is one that the recovery leaves behind.
func (r Recovery) leavesBehind(clusterID string) bool {
	return clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID)
}

// ParseRecovery reads the value of KeyRecovery; nil when it is empty. Anything else that does not say all of it is
// an error: a member that passed over it could go on with data that is to be left behind.
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

// Encode is the value of KeyRecovery.
func (r Recovery) Encode() (string, error) {
	value, err := yaml.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding a recovery: %w", err)
	}
	return string(value), nil
}

// token of the cluster that the recovery makes: with it, it has an ID that no cluster ever had.
func (r Recovery) token(previous string) string { return previous + "-" + r.Task }
