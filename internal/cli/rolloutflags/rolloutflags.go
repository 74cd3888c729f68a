// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rolloutflags has the flags of the verbs that start or plan a rollout.
package rolloutflags

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddTo adds the flags to a verb, and returns the function that puts their values into a config.
func AddTo(cmd *cobra.Command) func(*rollout.Config) {
	flags := cmd.Flags()
	choice := func(name, usage string, values ...string) *string {
		into := flags.String(name, "", usage)
		complete.Values(cmd, name, values...)
		return into
	}
	handover := flags.Bool("leader-handover", true, "Move leadership to an updated member before the leader is replaced.")
	grace := flags.Duration("unready-grace-period", 0, "How long quorum must be lost before a running member is replaced (default 30s).")
	deadline := flags.Duration("progress-deadline", 0, "How long a rollout may make no progress before it counts as stalled (default 10m).")
	removal := choice("pod-removal", "How healthy pods are removed: Delete (default) or Evict.", string(rollout.Delete), string(rollout.Evict))
	down := choice("non-participating-pods", "How pods that are not running are removed: OneByOne (default) or AllAtOnce.", string(rollout.OneByOne), string(rollout.AllAtOnce))
	updates := choice("pod-update-policy", "How pods follow the template: Recreate, or InPlaceIfPossible (default: that of the Etcd, or of the operator).", string(v1alpha1.RecreatePods), string(v1alpha1.InPlaceIfPossible))
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

// duration returns a duration of a config; nil for the default.
func duration(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}
