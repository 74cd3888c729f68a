// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
)

// RolloutFlags adds the flags of a verb that starts or plans a rollout, and returns the function that puts their values into a
// config.
func RolloutFlags(cmd *cobra.Command) func(*rollout.Config) {
	flags := flagSet{cmd.Flags(), cmd}
	handover := flags.Bool("leader-handover", true, "Move leadership to an updated member before the leader is replaced.")
	grace := flags.Duration("unready-grace-period", 0, "How long quorum must be lost before a running member is replaced (default 30s).")
	deadline := flags.Duration("progress-deadline", 0, "How long a rollout may make no progress before it counts as stalled (default 10m).")
	removal := flags.choice("pod-removal", "", "How healthy pods are removed: Delete (default) or Evict.", string(rollout.Delete), string(rollout.Evict))
	down := flags.choice("non-participating-pods", "", "How pods that are not running are removed: OneByOne (default) or AllAtOnce.", string(rollout.OneByOne), string(rollout.AllAtOnce))
	updates := flags.choice("pod-update-policy", "", "How pods follow the template: Recreate, or InPlaceIfPossible (default: that of the Etcd, or of the operator).", string(v1alpha1.RecreatePods), string(v1alpha1.InPlaceIfPossible))
	sidecar := flags.Bool("unhealthy-backup-sidecar-first", false, "Within a role, replace pods first whose agent (container backup-restore) is not ready.")
	return func(c *rollout.Config) {
		if !*handover {
			c.LeaderHandover = handover
		}
		c.UnreadyGracePeriod, c.ProgressDeadline = duration(*grace), duration(*deadline)
		c.PodRemoval, c.NonParticipatingPods = rollout.PodRemoval(*removal), rollout.NonParticipatingPods(*down)
		c.PodUpdatePolicy = v1alpha1.PodUpdatePolicy(*updates)
		c.UnhealthyBackupSidecarFirst = *sidecar
	}
}
