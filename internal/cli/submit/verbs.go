// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// verb creates tasks of one type.
type verb struct {
	name, short, long, example string
	taskType                   v1alpha1.TaskType
	// config adds the verb's own flags to a flag set, and returns the function that turns them into spec.config.
	config func(flags flagSet) func() (any, error)
	// many: the verb also takes a selector, and creates a task for each Etcd.
	many bool
}

// verbs in the order in which help shows them.
var verbs = []verb{
	{
		name: "rollout", taskType: v1alpha1.QuorumAwareRollout, config: rolloutConfig,
		short: "Bring the pods to the newest template, and keep quorum",
		long: "Creates a QuorumAwareRollout: every pod that is not at the newest template is replaced, unhealthy ones first and the leader last.\n" +
			"With the operator's feature gate on, a change of the template creates one; this is for other options than the defaults.",
		example: "  # Roll etcd-main, by eviction, and wait for it\n  kubectl etcdtask rollout etcd-main --pod-removal Evict --wait",
	},
	{
		name: "restart", taskType: v1alpha1.QuorumAwareRollout, config: restartConfig, many: true,
		short: "Replace every pod, without a change of the template",
		long: "Creates a QuorumAwareRollout with restart: true: every pod that is older than the task is replaced, in the order of a rollout.\n" +
			"The Etcd itself is not changed. With a selector, one task is created for each Etcd that it selects, after a confirmation; none if one of them would be refused.",
		example: "  # Restart every member of etcd-main, at most ten minutes\n  kubectl etcdtask restart etcd-main --wait --timeout 10m\n\n" +
			"  # Restart the Etcds of an environment, without being asked\n  kubectl etcdtask restart -l environment=staging --yes",
	},
	{
		name: "snapshot", taskType: v1alpha1.OnDemandSnapshot, config: snapshotConfig,
		short: "Take a snapshot now, and upload it to the backup store",
		long:  "Creates an OnDemandSnapshot: the leading agent takes a full or a delta snapshot.",
		example: "  # Take a full snapshot before a risky change\n  kubectl etcdtask snapshot etcd-main --wait\n\n" +
			"  # Take what has changed since the last one\n  kubectl etcdtask snapshot etcd-main --type delta",
	},
	{
		name: "compact", taskType: v1alpha1.OnDemandCompaction, config: compactionConfig,
		short:   "Compact the newest full snapshot and its deltas into one full snapshot",
		long:    "Creates an OnDemandCompaction: a Job restores the newest backup, compacts it, and uploads one full snapshot. It needs no healthy member, and shows that the backup can be restored.",
		example: "  # Compact the backup of etcd-main, at most half an hour\n  kubectl etcdtask compact etcd-main --task-timeout 30m --wait",
	},
	{
		name: "defrag", taskType: v1alpha1.OnDemandMaintenance, config: maintenanceConfig,
		short:   "Defragment the members, one at a time, the leader last",
		long:    "Creates an OnDemandMaintenance: the database file of each member is rewritten without its free space, followers first.",
		example: "  # Remove old revisions, and free their space\n  kubectl etcdtask defrag etcd-main --compaction --wait",
	},
	{
		name: "copy-backups", taskType: v1alpha1.CopyBackups, config: copyConfig,
		short: "Copy the backup from one store to another",
		long:  "Creates a CopyBackups: a Job copies full and delta snapshots, and verifies the copies. One store must be that of the Etcd, and the other in the same bucket or named in the operator's configuration (backup.copyStores). The target may not overlap the live backups of an Etcd. Secrets with credentials must be in the namespace of the Etcd.",
		example: "  # Copy the newest two backups to a bucket that the operator's configuration names\n  kubectl etcdtask copy-backups etcd-main --max-backups 2 \\\n" +
			"    --source-provider S3 --source-container backups --source-prefix demo/etcd-main --source-secret credentials \\\n" +
			"    --target-provider GCS --target-container archive --target-prefix demo/etcd-main --target-secret archive-credentials",
	},
	{
		name: "members", taskType: v1alpha1.MembershipChange, config: membersConfig,
		short: "Bring the members to what spec.replicas asks for, one at a time",
		long: "Creates a MembershipChange: members are added, promoted, replaced and removed until the member list is what spec.replicas asks for.\n" +
			"The operator creates one by itself when the members differ; this is for other options than the defaults.",
		example: "  # Shrink etcd-main to one member, after spec.replicas was set to 1\n  kubectl etcdtask members etcd-main --single-member --wait",
	},
	{
		name: "recover", taskType: v1alpha1.QuorumLossRecovery, config: recoverConfig,
		short:   "Recover a cluster that has permanently lost quorum",
		long:    "Creates a QuorumLossRecovery: all members are stopped, and a new cluster starts from the most advanced surviving data, or from the newest backup if that is certainly ahead or no data is left. It is rejected while there is a quorum.",
		example: "  # Check that quorum is lost, then recover\n  kubectl etcdtask plan etcd-main\n  kubectl etcdtask recover etcd-main --wait",
	},
	{
		name: "restore", taskType: v1alpha1.Restore, config: restoreConfig,
		short: "Go back to an earlier state of the cluster, or undo that",
		long: "Creates a Restore. With --to alone, it is a preview: the message of the task says what going back would bring, and has the command that confirms it. Nothing is changed.\n" +
			"With --confirm, all members are stopped, and a new cluster starts from the earlier state: clients cannot write meanwhile, and what was written after that state is lost. What the members had is kept until the task is deleted, and --undo goes back to it.\n" +
			"What another store has is copied first, into the container of the Etcd's store (copy-backups), and --from names the prefix.",
		example: "  # Show what going back to 14:03 would bring\n  kubectl etcdtask restore etcd-main --to 2026-11-24T14:03:00Z --wait\n\n" +
			"  # Go back, as shown\n  kubectl etcdtask restore etcd-main --to revision=123456 --confirm 0123456789abcdef0123456789abcdef@123999 --wait\n\n" +
			"  # Undo that\n  kubectl etcdtask restore etcd-main --undo etcd-main-restore-x7k2p --wait",
	},
	{
		name: "recreate", taskType: v1alpha1.RecreateRollout, config: recreateConfig,
		short:   "Stop all pods, and start them at the newest template, with downtime",
		long:    "Creates a RecreateRollout: all members are stopped, and then started at the newest template, so that old and new never run together. The cluster does not serve until they are started. Data is kept.",
		example: "  # Replace a rollout that is stuck\n  kubectl etcdtask recreate etcd-main --wait",
	},
}
