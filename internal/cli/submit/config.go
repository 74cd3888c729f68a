// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flagSet is the flags of a verb.
type flagSet struct {
	*pflag.FlagSet
	cmd *cobra.Command
}

// choice adds a flag with a few values, and completes them.
func (f flagSet) choice(name, value, usage string, values ...string) *string {
	into := f.String(name, value, usage)
	kube.CompleteValues(f.cmd, name, values...)
	return into
}

const targetRevisionUsage = "The revision of the StatefulSet to bring the pods to (default: the newest)."

func recoverConfig(flags flagSet) func() (any, error) {
	fromData := flags.Bool("from-data", false, "Start from the data that has survived, even if the newest backup is ahead of it.")
	return func() (any, error) {
		if !*fromData {
			return nil, nil
		}
		return struct {
			Source v1alpha1.RecoverySource `json:"source"`
		}{v1alpha1.RecoverFromData}, nil
	}
}

// duration returns a duration of a config; nil for the default.
func duration(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

func rolloutConfig(flags flagSet) func() (any, error) {
	revision := flags.String("target-revision", "", targetRevisionUsage)
	options := RolloutFlags(flags.cmd)
	return func() (any, error) {
		c := rollout.Config{TargetRevision: *revision}
		options(&c)
		return c, nil
	}
}

func restartConfig(flags flagSet) func() (any, error) {
	options := RolloutFlags(flags.cmd)
	return func() (any, error) {
		c := rollout.Config{Restart: true}
		options(&c)
		return c, nil
	}
}

func recreateConfig(flags flagSet) func() (any, error) {
	revision := flags.String("target-revision", "", targetRevisionUsage)
	return func() (any, error) {
		return rollout.RecreateConfig{TargetRevision: *revision}, nil
	}
}

// taskTimeout adds the flag that limits the task. The command itself waits as long as --timeout says.
func taskTimeout(flags flagSet) *time.Duration {
	return flags.Duration("task-timeout", 0, "How long the task may take before it fails (default: the operator's).")
}

func snapshotConfig(flags flagSet) func() (any, error) {
	kind := flags.choice("type", "full", "full or delta.", "full", "delta")
	final := flags.Bool("final", false, "Mark it as the last one of this cluster; for a full snapshot only.")
	timeout := taskTimeout(flags)
	return func() (any, error) {
		switch {
		case *kind != "full" && *kind != "delta":
			return nil, kube.Usage("--type is %q: it must be full or delta", *kind)
		case *final && *kind != "full":
			return nil, kube.Usage("--final goes with --type full only")
		}
		return struct {
			Type    string           `json:"type"`
			IsFinal bool             `json:"isFinal,omitempty"`
			Timeout *metav1.Duration `json:"timeout,omitempty"`
		}{*kind, *final, duration(*timeout)}, nil
	}
}

func compactionConfig(flags flagSet) func() (any, error) {
	timeout := taskTimeout(flags)
	return func() (any, error) {
		return struct {
			Timeout *metav1.Duration `json:"timeout,omitempty"`
		}{duration(*timeout)}, nil
	}
}

func maintenanceConfig(flags flagSet) func() (any, error) {
	compaction := flags.Bool("compaction", false, "Remove revisions older than the current one first, which frees more space.")
	return func() (any, error) {
		return struct {
			EtcdCompaction      bool `json:"etcdCompaction,omitempty"`
			EtcdDefragmentation bool `json:"etcdDefragmentation"`
		}{*compaction, true}, nil
	}
}

func membersConfig(flags flagSet) func() (any, error) {
	single := flags.Bool("single-member", false, "Agree that one member remains, which tolerates no failure.")
	return func() (any, error) {
		return struct {
			SingleMember bool `json:"singleMember,omitempty"`
		}{*single}, nil
	}
}

func copyConfig(flags flagSet) func() (any, error) {
	source, target := store(flags, "source"), store(flags, "target")
	age := flags.Uint32("max-backup-age", 0, "Copy only backups of at most this many days (default: all).")
	backups := flags.Uint32("max-backups", 0, "Copy only this many of the newest backups (default: all).")
	return func() (any, error) {
		c := struct {
			SourceStore  v1alpha1.StoreSpec `json:"sourceStore"`
			TargetStore  v1alpha1.StoreSpec `json:"targetStore"`
			MaxBackupAge uint32             `json:"maxBackupAge,omitempty"`
			MaxBackups   uint32             `json:"maxBackups,omitempty"`
		}{MaxBackupAge: *age, MaxBackups: *backups}
		var err error
		if c.SourceStore, err = source(); err != nil {
			return nil, err
		}
		c.TargetStore, err = target()
		return c, err
	}
}

// store adds the flags of one of the two stores.
func store(flags flagSet, which string) func() (v1alpha1.StoreSpec, error) {
	provider := flags.choice(which+"-provider", "", "Provider of the "+which+" store: S3, GCS, ABS or Local.", "S3", "GCS", "ABS", "Local")
	container := flags.String(which+"-container", "", "Bucket of the "+which+" store.")
	prefix := flags.String(which+"-prefix", "", "Prefix of the objects in the "+which+" store.")
	secret := flags.String(which+"-secret", "", "Secret with the credentials of the "+which+" store.")
	endpoint := flags.String(which+"-endpoint", "", "URL of the service of the "+which+" store, in place of the one in its Secret, as endpointOverride.")
	return func() (v1alpha1.StoreSpec, error) {
		s := v1alpha1.StoreSpec{Provider: v1alpha1.StorageProvider(*provider), Container: *container, Prefix: *prefix}
		if *provider == "" || *container == "" {
			return s, kube.Usage("--%s-provider and --%s-container are required", which, which)
		}
		if *secret != "" {
			s.SecretRef = &v1alpha1.SecretReference{Name: *secret}
		}
		if *endpoint != "" {
			s.EndpointOverride = endpoint
		}
		return s, nil
	}
}

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
	snapshot := flags.choice("snapshot-before", "", "When a full snapshot is taken first: Always, MinorVersion (default: if etcd's minor version changes, or may) or Never.", string(rollout.SnapshotAlways), string(rollout.SnapshotForMinorVersion), string(rollout.SnapshotNever))
	nonServing := flags.Duration("non-serving-grace-period", 0, "Grace period of a pod whose member does not serve, in whole seconds (default 2s).")
	sidecar := flags.Bool("unhealthy-backup-sidecar-first", false, "Within a role, replace pods first whose agent (container backup-restore) is not ready.")
	return func(c *rollout.Config) {
		if !*handover {
			c.LeaderHandover = handover
		}
		c.UnreadyGracePeriod, c.ProgressDeadline = duration(*grace), duration(*deadline)
		c.PodRemoval, c.NonParticipatingPods = rollout.PodRemoval(*removal), rollout.NonParticipatingPods(*down)
		c.PodUpdatePolicy, c.SnapshotBefore = v1alpha1.PodUpdatePolicy(*updates), rollout.SnapshotBefore(*snapshot)
		c.NonServingGracePeriod = duration(*nonServing)
		c.UnhealthyBackupSidecarFirst = *sidecar
	}
}
