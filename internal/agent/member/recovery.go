// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
	// RecoverFromPoint: an earlier state from the backup, restored by that member: see RestorePoint. The cluster had not lost its quorum.
	RecoverFromPoint RecoverySource = "Restore"
	// RecoverFromKept: data that an earlier restore has set aside on that member's volume. This undoes that restore.
	RecoverFromKept RecoverySource = "KeptData"
)

// Recovery tells the members how their cluster starts as a new one: a cluster of one member with a new ID, which the others join as
// learners. It does so after a loss of quorum, when it wakes up without volumes, and when it goes back to an earlier state.
type Recovery struct {
	// Task is the UID of the task, or the ID of the hibernation that the cluster wakes up from.
	Task string `json:"task"`
	// TaskName is the task's name, for people; empty for a hibernation.
	TaskName string `json:"taskName,omitempty"`
	// Member is the name of the member that starts first.
	Member string `json:"member"`
	// Source of its data.
	Source RecoverySource `json:"source"`
	// PreviousClusterID is the ID, in hex, of the cluster that the new one replaces.
	PreviousClusterID string `json:"previousClusterID"`
	// EarlierClusterIDs are those of clusters whose recovery was not completed. A member may still have their data.
	EarlierClusterIDs []string `json:"earlierClusterIDs,omitempty"`
	// Revision that a backup must reach to be restored; 0 for any. For a cluster that wakes up, it is that of the final snapshot. After a
	// loss of quorum, it is beyond the data that was found, and is in the details.
	Revision int64 `json:"revision,omitempty"`
	// HighestRevision is the highest known one of the previous cluster: after a loss of quorum, the new cluster continues above it. It is 0
	// on waking up, where the revision is not raised, and for a restore, where Restore.Bump raises it. It is in the details.
	HighestRevision int64 `json:"-"`
	// HadData: the volume of Member had data. If it is empty now, it is another volume: see mayHaveBegun. It is in the details.
	HadData bool `json:"-"`
	// Restore is the state that the cluster goes back to, by RecoverFromPoint or RecoverFromKept; nil otherwise.
	Restore *RestorePoint `json:"restore,omitempty"`
}

// recoveryDetails is the value of KeyRecoveryDetails. Agents from before that key would refuse these fields in KeyRecovery, and would take a
// Recovery with a revision for a wake-up, which does not raise the revision.
type recoveryDetails struct {
	// Task of the Recovery. Details of another task do not count: an operator from before the key leaves them there.
	Task            string `json:"task"`
	Revision        int64  `json:"revision,omitempty"`
	HighestRevision int64  `json:"highestRevision,omitempty"`
	HadData         bool   `json:"hadData,omitempty"`
}

// RestorePoint is a state that a person has chosen to go back to.
type RestorePoint struct {
	// Base is the name of the full snapshot to begin with, Revision is the revision to end at exactly, and Hash is etcd's HashKV at that
	// revision, as previewed. RecoverFromKept has none of them.
	Base     string `json:"base,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Hash     uint32 `json:"hash,omitempty"`
	// Prefix of the snapshots in the container of the store, if it is not that of the member's own backup.
	Prefix string `json:"prefix,omitempty"`
	// Bytes of the database, as previewed: free space for it is needed twice. 0 if it is not known.
	Bytes int64 `json:"bytes,omitempty"`
	// Kept is the name of the directory to go back to, beside the data directory. Only RecoverFromKept has it.
	Kept string `json:"kept,omitempty"`
	// Bump is added to the revision, so that it is above any that clients have seen. What was before is marked compacted, so that clients
	// that watch or cache list again. The revision of kept data is not known, so the sum is where that begins at least.
	Bump int64 `json:"bump"`
}

// check returns an error if the point does not fit the source.
func (p *RestorePoint) check(source RecoverySource) error {
	switch {
	case source != RecoverFromPoint && source != RecoverFromKept:
		if p != nil {
			return fmt.Errorf("source %q has no state to restore", source)
		}
	case p == nil:
		return fmt.Errorf("source %q has no state to restore", source)
	case p.Bump <= 0:
		return fmt.Errorf("the revision is not raised: bump is %d", p.Bump)
	case source == RecoverFromPoint && (p.Base == "" || p.Revision <= 0):
		return errors.New("it has no base or no revision to restore")
	case source == RecoverFromKept && (filepath.Base(p.Kept) != p.Kept || !strings.Contains(p.Kept, BeforeSuffix)):
		return fmt.Errorf("%q is not a directory with kept data", p.Kept)
	}
	return nil
}

// restores reports whether a Restore takes the cluster back to an earlier state.
func (r Recovery) restores() bool { return r.Restore != nil }

// wakes reports whether the cluster wakes up from its final snapshot, without a task.
func (r Recovery) wakes() bool { return r.Revision > 0 && r.TaskName == "" }

// MayBeBehind reports whether the newest backup may lack what clients have seen. Only the final snapshot of a hibernation cannot.
func (r *Recovery) MayBeBehind() bool { return r == nil || !r.wakes() }

// LeavesBehind reports whether the recovery replaces a cluster.
func (r Recovery) LeavesBehind(clusterID string) bool {
	return clusterID == r.PreviousClusterID || slices.Contains(r.EarlierClusterIDs, clusterID)
}

// ParseRecovery parses the value of KeyRecovery; nil if it is empty. Incomplete values and unknown fields are errors: a member that ignored
// them could continue with data of the previous cluster.
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
	known := []RecoverySource{RecoverFromData, RecoverFromBackup, RecoverFromPoint, RecoverFromKept}
	if !slices.Contains(known, r.Source) || r.wakes() && r.Source != RecoverFromBackup {
		return nil, fmt.Errorf("reading %s of the shared configuration: there is no source %q", KeyRecovery, r.Source)
	}
	if err := r.Restore.check(r.Source); err != nil {
		return nil, fmt.Errorf("reading %s of the shared configuration: %w", KeyRecovery, err)
	}
	return r, nil
}

// readDetails reads the value of KeyRecoveryDetails.
func (r *Recovery) readDetails(value string) error {
	d := recoveryDetails{}
	if err := yaml.Unmarshal([]byte(value), &d); err != nil {
		return fmt.Errorf("reading %s of the shared configuration: %w", KeyRecoveryDetails, err)
	}
	if d.Task == r.Task {
		r.Revision, r.HighestRevision, r.HadData = max(r.Revision, d.Revision), d.HighestRevision, d.HadData
	}
	return nil
}

// Encode returns the value of KeyRecovery.
func (r Recovery) Encode() (string, error) {
	if !r.wakes() {
		r.Revision = 0
	}
	value, err := yaml.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding a recovery: %w", err)
	}
	return string(value), nil
}

// EncodeDetails returns the value of KeyRecoveryDetails; empty if there are none.
func (r Recovery) EncodeDetails() (string, error) {
	d := recoveryDetails{Task: r.Task, Revision: r.Revision, HighestRevision: r.HighestRevision, HadData: r.HadData}
	if r.wakes() {
		d.Revision = 0
	}
	if d == (recoveryDetails{Task: r.Task}) {
		return "", nil
	}
	value, err := yaml.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encoding the details of a recovery: %w", err)
	}
	return string(value), nil
}

// token returns the token of the recovered cluster, which gives it a new ID.
func (r Recovery) token(previous string) string { return previous + "-" + r.Task }
