// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scenario is a task in a cluster.
type scenario struct {
	name     string
	taskType v1alpha1.TaskType
	config   string
	// begin begins it in a cluster in which all is well.
	begin func(*world)
	// result is what the agent reports in a Job.
	result func(*batchv1.Job) string
	// swift: time passes faster.
	swift bool
	// alone: pods of two revisions never exist at a time.
	alone bool
}

// scenarios are all task types.
func scenarios() []scenario {
	return []scenario{
		{name: "rollout", begin: changed},
		{name: "restart", taskType: v1alpha1.QuorumAwareRollout, config: "restart: true", begin: created},
		{name: "recreate", taskType: v1alpha1.RecreateRollout, begin: outdated, alone: true},
		{name: "members", taskType: v1alpha1.MembershipChange, begin: scaled},
		{name: "recovery", taskType: v1alpha1.QuorumLossRecovery, begin: lost, result: disturb.Surveyed, swift: true},
		{name: "restore", taskType: v1alpha1.Restore, config: disturb.Restored, begin: created, result: disturb.Previewed},
		{name: "undo", taskType: v1alpha1.Restore, config: "undo: before", begin: restored, result: disturb.Previewed},
		{name: "maintenance", taskType: v1alpha1.OnDemandMaintenance, config: "{etcdCompaction: true, etcdDefragmentation: true}", begin: created},
		{name: "snapshot", taskType: v1alpha1.OnDemandSnapshot, config: "type: full", begin: created},
		{name: "compaction", taskType: v1alpha1.OnDemandCompaction, begin: created, result: says(`{"revision": 7, "createdOn": "2000-01-01T00:10:00Z"}`)},
		{name: "copy", taskType: v1alpha1.CopyBackups, begin: created, result: says("{}"),
			config: "sourceStore: {provider: Local, container: store, prefix: NAMESPACE/main}\ntargetStore: {provider: Local, container: store, prefix: NAMESPACE/copy}"},
	}
}

func says(what string) func(*batchv1.Job) string { return func(*batchv1.Job) string { return what } }

// created creates the task.
func created(w *world) {
	w.arm()
	w.createTask()
}

// restored has the cluster go back, and undoes that by what the members had set aside.
func restored(w *world) {
	w.CreateTask("before", v1alpha1.Restore, disturb.Restored)
	before := &v1alpha1.EtcdOperatorTask{}
	w.until("the cluster has gone back", func() bool { return w.get(before, "before") && before.Status.State == v1alpha1.TaskStateSucceeded })
	w.untilQuiet()
	w.scenario.result = func(j *batchv1.Job) string { return disturb.Kept(j, before.UID) }
	created(w)
}

// changed changes the pods, for which the operator creates a task.
func changed(w *world) {
	e := &v1alpha1.Etcd{}
	w.get(e, name)
	w.arm()
	before := client.MergeFrom(e.DeepCopy())
	e.Spec.Annotations = map[string]string{"changed": "yes"}
	w.must(testEnv.Client.Patch(w.T.Context(), e, before))
}

// outdated changes the pods while no operator runs, so that no rollout begins before the task.
func outdated(w *world) {
	w.operator.stop()
	w.createTask()
	set := &appsv1.StatefulSet{}
	w.get(set, name)
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Template.Annotations["changed"] = "by hand"
	w.must(testEnv.Client.Patch(w.T.Context(), set, before))
	w.arm()
	w.operator = w.start()
}

// scaled has someone scale the StatefulSet up, which is undone: there is no kubelet, so no member joins or leaves here, as in test/crash/engine.
func scaled(w *world) {
	w.arm()
	set := &appsv1.StatefulSet{}
	w.get(set, name)
	w.must(testEnv.Client.Patch(w.T.Context(), set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))))
	w.createTask()
}

// lost has all members crash.
func lost(w *world) {
	for i := range members {
		w.Kubelet.Set(pod(i), env.Crashing)
	}
	w.until("no member serves", func() bool { return w.Members.Leader() < 0 })
	w.arm()
	w.createTask()
}
