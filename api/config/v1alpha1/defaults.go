// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetDefaults sets the defaults of all fields that are not set.
func SetDefaults(c *OperatorConfiguration) {
	c.Mode = cmp.Or(c.Mode, ModeOperator)
	c.PodUpdatePolicy = cmp.Or(c.PodUpdatePolicy, v1alpha1.InPlaceIfPossible)
	c.ManagedByLabel = cmp.Or(c.ManagedByLabel, v1alpha1.ManagedBy)
	c.Images.Etcd = cmp.Or(c.Images.Etcd, "gcr.io/etcd-development/etcd:v3.6.16")

	if c.JoinSources == nil {
		c.JoinSources = []string{"*"}
	}

	c.ClientConnection.QPS = cmp.Or(c.ClientConnection.QPS, 400)
	c.ClientConnection.Burst = cmp.Or(c.ClientConnection.Burst, 800)

	if c.LeaderElection.Enabled == nil {
		c.LeaderElection.Enabled = new(true)
	}
	c.LeaderElection.LeaseDuration = cmp.Or(c.LeaderElection.LeaseDuration, metav1.Duration{Duration: 15 * time.Second})
	c.LeaderElection.RenewDeadline = cmp.Or(c.LeaderElection.RenewDeadline, metav1.Duration{Duration: 10 * time.Second})
	c.LeaderElection.RetryPeriod = cmp.Or(c.LeaderElection.RetryPeriod, metav1.Duration{Duration: 2 * time.Second})

	c.Server.MetricsBindAddress = cmp.Or(c.Server.MetricsBindAddress, ":8080")
	c.Server.HealthBindAddress = cmp.Or(c.Server.HealthBindAddress, ":8081")
	c.Server.WebhookBindAddress = cmp.Or(c.Server.WebhookBindAddress, "0")
	c.Server.PprofBindAddress = cmp.Or(c.Server.PprofBindAddress, "0")

	compaction := &c.Backup.SnapshotCompaction
	compaction.EventsThreshold = cmp.Or(compaction.EventsThreshold, v1alpha1.DefaultEventsThreshold)
	compaction.TriggerFullSnapshotThreshold = cmp.Or(compaction.TriggerFullSnapshotThreshold, v1alpha1.DefaultTriggerFullSnapshotThreshold)

	// A worker may wait for three seconds for members that hang, and a third of the workers does so at most. With 300 for tasks, those
	// of 300 Etcds that hang are still looked at every ten seconds, as the timers of a rollout need it. An idle worker costs a few
	// kilobytes; a busy one of the etcd controller also holds connections to members. All are busy when the operator starts.
	c.Controllers.Etcd.ConcurrentSyncs = cmp.Or(c.Controllers.Etcd.ConcurrentSyncs, 80)
	c.Controllers.Rollout.ConcurrentSyncs = cmp.Or(c.Controllers.Rollout.ConcurrentSyncs, 100)
	c.Controllers.Task.ConcurrentSyncs = cmp.Or(c.Controllers.Task.ConcurrentSyncs, 300)

	c.Logging.Level = cmp.Or(c.Logging.Level, LogLevelInfo)
	c.Logging.Format = cmp.Or(c.Logging.Format, LogFormatJSON)
}
