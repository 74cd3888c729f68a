// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package operations is what a user asks the operator to do with an etcd cluster while faults are injected: rollouts,
// restarts, recreations, maintenance, snapshots, recoveries, restores, hibernation, changes of the members, migrations to the members of
// another Etcd, and switching the feature gate.
package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is the claim of the backup store.
const store = "backups"

// Cluster is the Etcd that operations are asked of.
type Cluster struct {
	Kube            client.Client
	Namespace, Name string
	// Other is the name of the Etcd that a migration moves the cluster to: then Name and Other change places.
	Other    string
	Members  int
	Operator Deployment
	// Now is the time since the run began.
	Now func() time.Duration
	// Written waits for a write that was sent from now on and acknowledged.
	Written func(context.Context) error
	// Newest is the newest revision at which a write was acknowledged, Restored records a Restore that went back, and Read what the cluster has now.
	Newest   func() int64
	Restored func(history.Restore)
	Read     func(context.Context) error
	// Outage records a time in which members are stopped because somebody has asked for it.
	Outage func(oracle.Outage)
	// Migrated records a migration that is over.
	Migrated func(oracle.Migration)
	// Ended records a task that has ended.
	Ended func(name string, status v1alpha1.EtcdOperatorTaskStatus)

	asked int
	// raised is by how many MiB the memory of etcd has been raised.
	raised int64
}

// Operation is something that a user asks for.
type Operation struct {
	Name string
	// Run asks for it, and returns once it has ended, or will with the cluster being settled.
	Run func(ctx context.Context, c *Cluster) error
	// Not are faults that have no effect on it, or with which any operator would lose data.
	Not []string
	// Times is how many times as long as another operation it may take; 0 for once.
	Times int
	// Migrates: the members of the other Etcd take part, and faults are for them as well.
	Migrates bool
	// Spread is how long after its beginning faults may begin; 0 for as early as usual.
	Spread time.Duration
}

// All are all operations. What is done most in practice is there more than once.
func All() []Operation {
	rollout := Operation{Name: "rollout", Run: by((*Cluster).replacePods)}
	return slices.Concat(inPlace(), membership(), migrations(), restores(), []Operation{
		rollout,
		{Name: "restart", Run: task(v1alpha1.QuorumAwareRollout, "restart: true")},
		{Name: "recreation", Run: by((*Cluster).recreate)},
		{Name: "recreation instead of a rollout", Run: by((*Cluster).recreateInstead)},
		rollout,
		{Name: "restart by eviction", Run: task(v1alpha1.QuorumAwareRollout, "{restart: true, podRemoval: Evict}")},
		{Name: "restart with overridden guards", Run: by((*Cluster).restartWithOverrides)},
		{Name: "maintenance", Run: task(v1alpha1.OnDemandMaintenance, "{etcdCompaction: true, etcdDefragmentation: true}")},
		{Name: "recovery that is not needed", Run: by((*Cluster).needlessRecovery)},
		rollout,
		{Name: "snapshot", Run: task(v1alpha1.OnDemandSnapshot, "type: full")},
		{Name: "recovery", Run: by((*Cluster).recover), Not: recoveryNot},
		{Name: "hibernation", Run: by((*Cluster).hibernate)},
		{Name: "gate switched", Run: by((*Cluster).switchGate)},
	})
}

// recoveryNot would continue or restart the members that a recovery freezes, or take the last one's data.
var recoveryNot = []string{
	"volume lost", "volume lost and no promotion", "member frozen (SIGSTOP)", "all members frozen (SIGSTOP)", "member killed (SIGKILL)", "member terminated (SIGTERM)",
	"member slow", "all members slow", "container starts slowly", "disk of a member refuses writes", "disk of a member slow", "disks of all members slow",
	"clock of a member is off", "clocks of all members are off",
}

func by(method func(*Cluster, context.Context) error) func(context.Context, *Cluster) error {
	return func(ctx context.Context, c *Cluster) error { return method(c, ctx) }
}

// Named returns the operation of a name.
func Named(name string) (Operation, bool) {
	all := All()
	i := slices.IndexFunc(all, func(o Operation) bool { return o.Name == name })
	if i < 0 {
		return Operation{}, false
	}
	return all[i], true
}

// Key is the key of the Etcd and of the StatefulSet.
func (c *Cluster) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// Create creates the namespace, a backup store and the Etcd.
func (c *Cluster) Create(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: store},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		c.newEtcd(),
	}
	for _, o := range objects {
		if err := c.Kube.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// newEtcd is the Etcd, as it is created.
func (c *Cluster) newEtcd() *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Spec: v1alpha1.EtcdSpec{
			Replicas: int32(c.Members), StorageCapacity: ptr.To(resource.MustParse("1Gi")),
			Etcd: v1alpha1.EtcdConfig{Resources: resources(0)},
			Backup: &v1alpha1.BackupSpec{
				Store:               &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: store},
				DeltaSnapshotPeriod: &metav1.Duration{Duration: 30 * time.Second},
			},
		},
	}
}

// Settled waits until the cluster is as its spec says, every member is ready, and no task is left.
func (c *Cluster) Settled(ctx context.Context) error {
	return until(ctx, "the cluster is settled", func(ctx context.Context) error {
		etcd, err := c.etcd(ctx)
		if err != nil {
			return err
		}
		if etcd.Status.ObservedGeneration < etcd.Generation {
			return errors.New("the operator has not applied the newest spec")
		}
		for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated} {
			if condition := etcd.Status.Conditions.Find(name); condition == nil || condition.Status != metav1.ConditionTrue {
				return fmt.Errorf("condition %s: %+v", name, condition)
			}
		}
		tasks := &v1alpha1.EtcdOperatorTaskList{}
		if err := c.Kube.List(ctx, tasks, client.InNamespace(c.Namespace)); err != nil {
			return err
		}
		for _, t := range tasks.Items {
			if !t.Status.State.IsFinal() {
				return fmt.Errorf("task %s is %s: %+v", t.Name, t.Status.State, t.Status.LastOperation)
			}
		}
		return c.updated(ctx)
	})
}

// updated returns nil once every pod is at the revision of the template: the conditions may be from before a change, if the
// operator is frozen.
func (c *Cluster) updated(ctx context.Context) error {
	set, err := c.statefulSet(ctx)
	if err != nil {
		return err
	}
	if set.Status.ObservedGeneration < set.Generation {
		return errors.New("the StatefulSet controller has not seen the newest template")
	}
	for i := range c.Members {
		pod := &corev1.Pod{}
		if err := c.Kube.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.pod(i)}, pod); err != nil {
			return err
		}
		_, marked := pod.Annotations[v1alpha1.AnnotationInPlaceUpdate]
		if marked || pod.DeletionTimestamp != nil || pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision {
			return fmt.Errorf("pod %s is not at revision %s yet", pod.Name, set.Status.UpdateRevision)
		}
	}
	return nil
}

// askPatience bounds one request to the API server, which may be frozen.
const askPatience = 5 * time.Second

// until polls until there is nothing to say against it. An API server that does not answer is something.
func until(ctx context.Context, what string, against func(context.Context) error) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, askPatience)
			defer cancel()
			return against(ctx)
		}()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w: %w", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

func (c *Cluster) etcd(ctx context.Context) (*v1alpha1.Etcd, error) {
	etcd := &v1alpha1.Etcd{}
	return etcd, c.Kube.Get(ctx, c.Key(), etcd)
}

func (c *Cluster) statefulSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	return set, c.Kube.Get(ctx, c.Key(), set)
}

// patch changes the Etcd.
func (c *Cluster) patch(ctx context.Context, change func(*v1alpha1.Etcd)) error {
	return until(ctx, "the Etcd is changed", func(ctx context.Context) error {
		etcd, err := c.etcd(ctx)
		if err != nil {
			return err
		}
		before := client.MergeFrom(etcd.DeepCopy())
		change(etcd)
		return c.Kube.Patch(ctx, etcd, before)
	})
}

// kept is for how many seconds a task that has ended can be read, even if the operator's clock is a day ahead.
const kept = int32(3 * 24 * 60 * 60)

// ask creates a task, which overrides some guards, and returns its name.
func (c *Cluster) ask(ctx context.Context, kind v1alpha1.TaskType, config string, overridden ...v1alpha1.OverridableGuard) (string, error) {
	c.asked++
	name := fmt.Sprintf("%s-%d", strings.ToLower(string(kind)), c.asked)
	return name, until(ctx, "task "+name+" is created", func(ctx context.Context) error {
		err := c.Kube.Create(ctx, &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
			Spec: v1alpha1.EtcdOperatorTaskSpec{
				Type: kind, Config: config, OverrideGuards: overridden, OwnerEtcdReference: v1alpha1.EtcdReference{Name: c.Name}, TTLSecondsAfterFinished: ptr.To(kept),
			},
		})
		if err != nil {
			// The answer may have been lost.
			return c.Kube.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, &v1alpha1.EtcdOperatorTask{})
		}
		return nil
	})
}

// ended waits until a task has ended.
func (c *Cluster) ended(ctx context.Context, name string) (v1alpha1.EtcdOperatorTaskStatus, error) {
	task := &v1alpha1.EtcdOperatorTask{}
	err := until(ctx, "task "+name+" has ended", func(ctx context.Context) error {
		if err := c.Kube.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, task); err != nil {
			return err
		}
		if !task.Status.State.IsFinal() {
			return fmt.Errorf("it is %s: %+v", task.Status.State, task.Status.LastOperation)
		}
		return nil
	})
	if err == nil {
		c.Ended(name, task.Status)
	}
	return task.Status, err
}

// carryOut asks for a task, and returns how it ended. Under faults it may fail, and say so: that is no error.
func (c *Cluster) carryOut(ctx context.Context, kind v1alpha1.TaskType, config string, overridden ...v1alpha1.OverridableGuard) (v1alpha1.EtcdOperatorTaskStatus, error) {
	name, err := c.ask(ctx, kind, config, overridden...)
	if err != nil {
		return v1alpha1.EtcdOperatorTaskStatus{}, err
	}
	return c.ended(ctx, name)
}

// task returns an operation that is one task.
func task(kind v1alpha1.TaskType, config string, overridden ...v1alpha1.OverridableGuard) func(context.Context, *Cluster) error {
	return func(ctx context.Context, c *Cluster) error {
		_, err := c.carryOut(ctx, kind, config, overridden...)
		return err
	}
}
