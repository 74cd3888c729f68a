// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewTask returns a task for the Etcd.
func (c *Cluster) NewTask(name string, taskType v1alpha1.TaskType, config string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: taskType, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: c.Name}},
	}
}

// CreateTask creates a task for the Etcd.
func (c *Cluster) CreateTask(name string, taskType v1alpha1.TaskType, config string) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
	t := c.NewTask(name, taskType, config)
	c.Create(t)
	return t
}

// Task reads a task.
func (c *Cluster) Task(g gomega.Gomega, name string) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{}
	c.Get(g, name, t)
	return t
}

// Tasks lists the tasks.
func (c *Cluster) Tasks(g gomega.Gomega) []v1alpha1.EtcdOperatorTask {
	all := &v1alpha1.EtcdOperatorTaskList{}
	c.List(g, all)
	return all.Items
}

// UntilTask waits for a task to be in a state, and returns it.
func (c *Cluster) UntilTask(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
	return c.UntilTaskStatus(name, func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State == state })
}

// UntilTaskStatus waits for the status of a task to satisfy a condition, and returns the task.
func (c *Cluster) UntilTaskStatus(name string, holds func(v1alpha1.EtcdOperatorTaskStatus) bool) (t *v1alpha1.EtcdOperatorTask) {
	c.T.Helper()
	c.Eventually(func(g gomega.Gomega) {
		t = c.Task(g, name)
		g.Expect(holds(t.Status)).To(gomega.BeTrue(), "status: %+v %+v", t.Status, t.Status.Rollout)
	}).Should(gomega.Succeed())
	return t
}

// Jobs lists the Jobs, those of a component if one is given.
func (c *Cluster) Jobs(g gomega.Gomega, component ...string) []batchv1.Job {
	all := &batchv1.JobList{}
	var options []client.ListOption
	for _, name := range component {
		options = append(options, client.MatchingLabels{v1alpha1.LabelComponent: name})
	}
	c.List(g, all, options...)
	return all.Items
}

// PodOf returns the pod of a Job, and status is the one with which its container has ended.
func PodOf(job *batchv1.Job, name string, ended corev1.ContainerStateTerminated) (pod *corev1.Pod, status corev1.PodStatus) {
	labels := map[string]string{batchv1.JobNameLabel: job.Name}
	for k, v := range job.Spec.Template.Labels {
		labels[k] = v
	}
	template := job.Spec.Template.Spec
	pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: corev1.PodSpec{Containers: template.Containers, Volumes: template.Volumes, RestartPolicy: corev1.RestartPolicyNever},
	}
	return pod, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: template.Containers[0].Name, State: corev1.ContainerState{Terminated: &ended},
	}}}
}

// Succeeded returns the status of a Job that has succeeded.
func Succeeded() batchv1.JobStatus {
	now := metav1.Now()
	return batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
		{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
	}}
}
