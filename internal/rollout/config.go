// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// PodRemoval is how a healthy pod is removed.
type PodRemoval string

// NonParticipatingPods is how pods that are not running are removed.
type NonParticipatingPods string

// SnapshotBefore is when a full snapshot is taken before the first step.
type SnapshotBefore string

// The values of PodRemoval, NonParticipatingPods and SnapshotBefore.
const (
	Delete PodRemoval = "Delete"
	Evict  PodRemoval = "Evict"

	OneByOne  NonParticipatingPods = "OneByOne"
	AllAtOnce NonParticipatingPods = "AllAtOnce"

	SnapshotAlways          SnapshotBefore = "Always"
	SnapshotForMinorVersion SnapshotBefore = "MinorVersion"
	SnapshotNever           SnapshotBefore = "Never"
)

// Config is spec.config of a QuorumAwareRollout. Every field is optional.
type Config struct {
	// TargetRevision is the revision to bring the pods to. Default: the StatefulSet's update revision when
	// the task is admitted.
	TargetRevision string `json:"targetRevision,omitempty"`
	// Restart replaces every pod that is older than the task, outdated or not.
	Restart bool `json:"restart,omitempty"`
	// LeaderHandover moves leadership to an updated member before the leader is replaced. Default true.
	LeaderHandover *bool `json:"leaderHandover,omitempty"`
	// UnreadyGracePeriod is how long no member must have known a leader before the quorum counts as lost, and how long a member must have
	// been running to count as back. Default 30s, at least 10s.
	UnreadyGracePeriod *metav1.Duration `json:"unreadyGracePeriod,omitempty"`
	// ProgressDeadline is how long a rollout may make no progress before it counts as stalled. Default 10m.
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// PodRemoval: Delete (default) or Evict (DEP-06).
	PodRemoval PodRemoval `json:"podRemoval,omitempty"`
	// NonParticipatingPods: OneByOne (default) or AllAtOnce, for pods that are Dead or Starting (DEP-06).
	NonParticipatingPods NonParticipatingPods `json:"nonParticipatingPods,omitempty"`
	// PodUpdatePolicy: Recreate or InPlaceIfPossible. Default: that of the Etcd, or of the operator. A restart replaces every pod.
	PodUpdatePolicy v1alpha1.PodUpdatePolicy `json:"podUpdatePolicy,omitempty"`
	// SnapshotBefore is when a full snapshot is taken first, if a backup store is configured: Always, MinorVersion (default: if
	// the minor version of etcd changes, or may change) or Never.
	SnapshotBefore SnapshotBefore `json:"snapshotBefore,omitempty"`
	// NonServingGracePeriod is the grace period for the deletion of a pod whose member does not serve, if it is shorter than the pod's own
	// (ADR 22). Whole seconds, at least 1s. Default 2s.
	NonServingGracePeriod *metav1.Duration `json:"nonServingGracePeriod,omitempty"`
	// UnhealthyBackupSidecarFirst orders the pods within a role (DEP-06). Default false.
	UnhealthyBackupSidecarFirst bool `json:"unhealthyBackupSidecarFirst,omitempty"`
}

const (
	defaultUnreadyGracePeriod = 30 * time.Second
	defaultProgressDeadline   = 10 * time.Minute
	// defaultNonServingGracePeriod is how long etcd takes to terminate if it reacts at all.
	defaultNonServingGracePeriod = 2 * time.Second
	// minNonServingGracePeriod is not 0, which would remove a pod before the kubelet confirms that its containers have ended.
	minNonServingGracePeriod = time.Second
	// minUnreadyGracePeriod is long enough for several elections, whose timeout is a second by default.
	minUnreadyGracePeriod = 10 * time.Second
	// maxRevisionLength is the maximum length of a ControllerRevision's name.
	maxRevisionLength = 253
)

// DefaultConfig returns the config in which every field has its default.
func DefaultConfig() Config {
	return Config{
		LeaderHandover:        ptr.To(true),
		UnreadyGracePeriod:    &metav1.Duration{Duration: defaultUnreadyGracePeriod},
		ProgressDeadline:      &metav1.Duration{Duration: defaultProgressDeadline},
		PodRemoval:            Delete,
		NonParticipatingPods:  OneByOne,
		SnapshotBefore:        SnapshotForMinorVersion,
		NonServingGracePeriod: &metav1.Duration{Duration: defaultNonServingGracePeriod},
	}
}

// Default implements taskconfig.Config.
func (c *Config) Default() { *c = DefaultConfig() }

// MayTakeSnapshot reports whether a rollout may begin with a snapshot. If images do not reveal their version of etcd, each may change it, so
// none begins with one unless the task always wants that.
func (c Config) MayTakeSnapshot(unknownVersions bool) bool {
	return !unknownVersions || c.SnapshotBefore == SnapshotAlways
}

// Target returns what the config asks for.
func (c Config) Target() Target { return Target{c.TargetRevision, c.Restart} }

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	if err := validateRevision(c.TargetRevision); err != nil {
		return err
	}
	switch {
	case c.TargetRevision != "" && c.Restart:
		return fmt.Errorf("targetRevision and restart exclude each other: a restart follows the StatefulSet's revision")
	case c.LeaderHandover == nil:
		return fmt.Errorf("leaderHandover is null: leave it out for the default")
	case c.UnreadyGracePeriod == nil || c.UnreadyGracePeriod.Duration < minUnreadyGracePeriod:
		return fmt.Errorf("unreadyGracePeriod must be at least %s", minUnreadyGracePeriod)
	case c.ProgressDeadline == nil || c.ProgressDeadline.Duration <= 0:
		return fmt.Errorf("progressDeadline must be greater than 0")
	case c.NonServingGracePeriod == nil || c.NonServingGracePeriod.Duration < minNonServingGracePeriod || c.NonServingGracePeriod.Duration%time.Second != 0:
		return fmt.Errorf("nonServingGracePeriod must be a whole number of seconds, at least %s", minNonServingGracePeriod)
	case c.PodUpdatePolicy != "" && c.PodUpdatePolicy != v1alpha1.InPlaceIfPossible && c.PodUpdatePolicy != v1alpha1.RecreatePods:
		return fmt.Errorf("podUpdatePolicy is %q: it must be %s or %s", c.PodUpdatePolicy, v1alpha1.InPlaceIfPossible, v1alpha1.RecreatePods)
	case c.SnapshotBefore != SnapshotAlways && c.SnapshotBefore != SnapshotForMinorVersion && c.SnapshotBefore != SnapshotNever:
		return fmt.Errorf("snapshotBefore is %q: it must be %s, %s or %s", c.SnapshotBefore, SnapshotAlways, SnapshotForMinorVersion, SnapshotNever)
	case c.PodRemoval != Delete && c.PodRemoval != Evict:
		return fmt.Errorf("podRemoval is %q: it must be %s or %s", c.PodRemoval, Delete, Evict)
	case c.NonParticipatingPods != OneByOne && c.NonParticipatingPods != AllAtOnce:
		return fmt.Errorf("nonParticipatingPods is %q: it must be %s or %s", c.NonParticipatingPods, OneByOne, AllAtOnce)
	}
	return nil
}

// InPlace reports whether pods are updated in place where that is possible: as the task says, or else the Etcd, or else the
// operator. A restart replaces every pod.
func (c Config) InPlace(etcd, operator v1alpha1.PodUpdatePolicy) bool {
	return !c.Restart && cmp.Or(c.PodUpdatePolicy, etcd, operator) == v1alpha1.InPlaceIfPossible
}

// Grace returns the unreadyGracePeriod, or its minimum if an unvalidated config has less.
func (c Config) Grace() time.Duration {
	return max(c.UnreadyGracePeriod.Duration, minUnreadyGracePeriod)
}

// shortGrace is the grace period of a pod whose member does not serve. It holds its minimum also for a config that was not
// validated.
func (c Config) shortGrace() time.Duration {
	return max(c.NonServingGracePeriod.Truncate(time.Second), minNonServingGracePeriod)
}
