// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// state is what the cluster has come to, without what may differ from run to run: times, names of leaders, resourceVersions.
func (w *world) state() string {
	w.T.Helper()
	lines := append(w.stateOfTasks(), w.stateOfEtcd()...)
	set := &appsv1.StatefulSet{}
	w.get(set, name)
	lines = append(lines, fmt.Sprintf("StatefulSet %d, %d ready, %s, held %q", ptr.Deref(set.Spec.Replicas, -1), set.Status.ReadyReplicas, set.Spec.UpdateStrategy.Type, set.Annotations[v1alpha1.AnnotationHeldAtZeroBy]))
	pods := &corev1.PodList{}
	w.List(w, pods)
	for _, p := range pods.Items {
		if revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]; revision != "" {
			lines = append(lines, fmt.Sprintf("pod %s updated %t ready %t", p.Name, revision == set.Status.UpdateRevision, w.Kubelet.Ready(p.Name)))
		}
	}
	lines = append(lines, fmt.Sprintf("claims kept %t", maps.Equal(w.claims, w.Claims())))
	jobs := &batchv1.JobList{}
	w.List(w, jobs)
	for _, j := range jobs.Items {
		lines = append(lines, "Job "+j.Labels[v1alpha1.LabelComponent])
	}
	lease := &coordinationv1.Lease{}
	w.get(lease, name+"-full-snap")
	lines = append(lines, "recorded "+ptr.Deref(lease.Spec.HolderIdentity, "nothing"))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *world) stateOfTasks() (lines []string) {
	w.T.Helper()
	all := &v1alpha1.EtcdOperatorTaskList{}
	w.List(w, all)
	for _, t := range all.Items {
		line := fmt.Sprintf("%s %s %s, result %v", t.Spec.Type, t.Status.State, t.Status.Progress, slices.Sorted(maps.Keys(t.Status.Result)))
		if r := t.Status.Rollout; r != nil {
			line += fmt.Sprintf(", %d of %d updated, phase %q", r.UpdatedReplicas, r.Replicas, r.Phase)
		}
		if r := t.Status.Recovery; r != nil {
			line += fmt.Sprintf(", phase %s from %s %s", r.Phase, r.Member, r.Source)
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) stateOfEtcd() []string {
	w.T.Helper()
	e, config, service := &v1alpha1.Etcd{}, &corev1.ConfigMap{}, &corev1.Service{}
	w.get(e, name)
	w.get(service, e.ClientServiceName())
	w.get(config, name+"-config")
	var conditions []string
	for _, c := range e.Status.Conditions {
		if c.Type == v1alpha1.ConditionBackupReady {
			// The operator looks at the leases of snapshots now and then.
			continue
		}
		conditions = append(conditions, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(conditions)
	return []string{
		fmt.Sprintf("clients kept away %t", disturb.Fenced(service)),
		fmt.Sprintf("Etcd ready %t, cluster %s, size %d, recovery %t", ptr.Deref(e.Status.Ready, false), disturb.Cluster(e.Status.ClusterID, config.Data), e.Status.ClusterSize, e.Status.Recovery != nil),
		fmt.Sprintf("Etcd %v", conditions),
		fmt.Sprintf("members recover %t", config.Data[member.KeyRecovery] != ""),
	}
}

// acts are what must not be done twice.
func (w *world) acts() string {
	w.T.Helper()
	set := &appsv1.StatefulSet{}
	w.get(set, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := map[string]int{}
	for made := range w.made {
		component, _, _ := strings.Cut(made, " ")
		jobs[component]++
	}
	return fmt.Sprintf("removed %v, Jobs %v, snapshots %d, StatefulSet changed %d times", w.removed, jobs, w.agent.Taken(), set.Generation-1)
}

// status is for people.
func (w *world) status() string {
	t := &v1alpha1.EtcdOperatorTask{}
	w.get(t, taskName)
	return fmt.Sprintf("%+v", t.Status)
}

// hasEnded reports whether every task has ended, and there is one.
func (w *world) hasEnded() bool {
	w.T.Helper()
	all := &v1alpha1.EtcdOperatorTaskList{}
	w.List(w, all)
	return len(all.Items) > 0 && !slices.ContainsFunc(all.Items, func(t v1alpha1.EtcdOperatorTask) bool { return !t.Status.State.IsFinal() })
}
