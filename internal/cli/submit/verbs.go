// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// verb makes tasks of one type.
type verb struct {
	name, short, long, example string
	taskType                   v1alpha1.TaskType
	// config adds the verb's own flags to a flag set, and returns what makes spec.config of them.
	config func(flags flagSet) func() (any, error)
	// guards: the task may pass over guards.
	guards bool
}

// verbs in the order in which help shows them.
var verbs = []verb{
	{
		name: "rollout", taskType: v1alpha1.QuorumAwareRollout, config: rolloutConfig, guards: true,
		short: "Bring the pods to the newest template, without costing the quorum",
		long: "Makes a QuorumAwareRollout: every pod that is not at the newest template is replaced, the sick first and the leader last.\n" +
			"With the operator's feature gate on, a change of template makes one by itself; this is for other options than the defaults.",
		example: "  # Roll etcd-main, by eviction, and wait for it\n  kubectl etcdtask rollout etcd-main --pod-removal Evict --wait",
	},
	{
		name: "restart", taskType: v1alpha1.QuorumAwareRollout, config: restartConfig, guards: true,
		short: "Replace every pod, without a change of template",
		long: "Makes a QuorumAwareRollout with restart: true: every pod that is older than the task is replaced, in the order of a rollout.\n" +
			"The Etcd itself is not changed.",
		example: "  # Restart every member of etcd-main, at most ten minutes\n  kubectl etcdtask restart etcd-main --wait --timeout 10m",
	},
	{
		name: "snapshot", taskType: v1alpha1.OnDemandSnapshot, config: snapshotConfig,
		short: "Take a snapshot now, and put it into the backup store",
		long:  "Makes an OnDemandSnapshot: the leading agent takes a full or a delta snapshot.",
		example: "  # Take a full snapshot before something risky\n  kubectl etcdtask snapshot etcd-main --wait\n\n" +
			"  # Take what has changed since the last one\n  kubectl etcdtask snapshot etcd-main --type delta",
	},
	{
		name: "compact", taskType: v1alpha1.OnDemandCompaction, config: compactionConfig,
		short:   "Make one full snapshot of the newest one and its deltas",
		long:    "Makes an OnDemandCompaction: a Job restores the newest backup, compacts it, and uploads one full snapshot. It needs no healthy member, and shows that the backup can be restored.",
		example: "  # Compact the backup of etcd-main, at most half an hour\n  kubectl etcdtask compact etcd-main --task-timeout 30m --wait",
	},
	{
		name: "defrag", taskType: v1alpha1.OnDemandMaintenance, config: maintenanceConfig,
		short:   "Defragment the members, one after the other, the leader last",
		long:    "Makes an OnDemandMaintenance: the database file of each member is rewritten without what is free, followers first.",
		example: "  # Remove old revisions, and give the space back\n  kubectl etcdtask defrag etcd-main --compaction --wait",
	},
	{
		name: "copy-backups", taskType: v1alpha1.CopyBackups, config: copyConfig,
		short: "Copy the backup from one store to another",
		long:  "Makes a CopyBackups: a Job copies full and delta snapshots, and verifies what it has written. A Secret with credentials is in the namespace of the Etcd.",
		example: "  # Copy the newest two backups to another bucket\n  kubectl etcdtask copy-backups etcd-main --max-backups 2 \\\n" +
			"    --source-provider S3 --source-container old --source-prefix demo/etcd-main --source-secret old-credentials \\\n" +
			"    --target-provider GCS --target-container new --target-prefix demo/etcd-main --target-secret new-credentials",
	},
	{
		name: "recover", taskType: v1alpha1.QuorumLossRecovery, config: noConfig,
		short:   "Recover a cluster that has lost its quorum for good",
		long:    "Makes a QuorumLossRecovery: all members are stopped, and the cluster starts anew from the most advanced data that survives, or from the newest backup. It is rejected while there is a quorum.",
		example: "  # See whether the quorum is lost, then recover\n  kubectl etcdtask plan etcd-main\n  kubectl etcdtask recover etcd-main --wait",
	},
	{
		name: "recreate", taskType: v1alpha1.RecreateRollout, config: recreateConfig,
		short:   "Stop all pods, and start them at the newest template: with downtime",
		long:    "Makes a RecreateRollout: all members are stopped, and then started at the newest template, so that old and new never run together. The cluster does not serve meanwhile. Data stays.",
		example: "  # Get a rollout that is stuck out of the way\n  kubectl etcdtask recreate etcd-main --wait",
	},
}
