// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package explain says in few lines what is going on in a namespace, for a test that has failed there. CI keeps only the end of what a test
// says, so each line is short, and the most useful come last.
package explain

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	patience = 20 * time.Second
	// width is that of a message.
	width = 240
	// operatorLines and initLines are how many lines of a log are shown.
	operatorLines, initLines = 10, 5
	operatorNamespace        = "etcd-foreman-system"
)

// Scene is what is explained.
type Scene struct {
	Kube      client.Reader
	Namespace string
	// Logs reads the logs of pods; nil where pods are simulated, whose members are not asked either.
	Logs kubernetes.Interface
	// TLS returns the TLS configuration for a member; nil if none uses TLS.
	TLS func(*corev1.Pod) *tls.Config
}

// String returns what is going on. What cannot be read is left out.
func (s Scene) String() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var pods corev1.PodList
	var sets appsv1.StatefulSetList
	var etcds v1alpha1.EtcdList
	var tasks v1alpha1.EtcdOperatorTaskList
	lines := s.operator(ctx)
	for _, list := range []client.ObjectList{&pods, &sets, &etcds, &tasks} {
		if err := s.Kube.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			lines = append(lines, fmt.Sprintf("listing %T: %v", list, err))
		}
	}
	for _, set := range sets.Items {
		lines = append(lines, fmt.Sprintf("StatefulSet %s: %d replicas wanted, %d pods, %d ready, %d updated to %s",
			set.Name, ptr.Deref(set.Spec.Replicas, 1), set.Status.Replicas, set.Status.ReadyReplicas, set.Status.UpdatedReplicas, set.Status.UpdateRevision))
	}
	lines = append(lines, s.members(ctx, pods.Items)...)
	for _, pod := range pods.Items {
		lines = append(lines, ofPod(pod))
		lines = append(lines, s.initializing(ctx, pod)...)
	}
	now := time.Now()
	for _, etcd := range etcds.Items {
		lines = append(lines, ofEtcd(&etcd, now)...)
	}
	slices.SortStableFunc(tasks.Items, func(a, b v1alpha1.EtcdOperatorTask) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, task := range tasks.Items {
		lines = append(lines, ofTask(&task, now))
	}
	return strings.Join(lines, "\n")
}

// operator returns what the operator has logged of the namespace.
func (s Scene) operator(ctx context.Context) (lines []string) {
	pods := corev1.PodList{}
	if s.Logs == nil || s.Kube.List(ctx, &pods, client.InNamespace(operatorNamespace)) != nil {
		return nil
	}
	for _, pod := range pods.Items {
		for _, line := range s.log(ctx, &pod, &corev1.PodLogOptions{TailLines: ptr.To[int64](2000)}) {
			if strings.Contains(line, `"`+s.Namespace+`"`) {
				lines = append(lines, text.Clip(logged(strings.ReplaceAll(line, `,"namespace":"`+s.Namespace+`"`, "")), width))
			}
		}
	}
	slices.Sort(lines) // by time: the operator may have changed
	return last(operatorLines, lines)
}

// logged returns a line of a log without what every line of a reconcile has.
func logged(line string) string {
	fields := map[string]any{}
	if json.Unmarshal([]byte(line), &fields) != nil {
		return line
	}
	say := fmt.Sprintf("operator %s: %s", fields["ts"], fields["msg"])
	for _, known := range []string{"ts", "msg", "level", "caller", "controller", "controllerGroup", "controllerKind", "Etcd", "name", "namespace", "reconcileID", "stacktrace"} {
		delete(fields, known)
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return say
	}
	return say + " " + string(rest)
}

// log returns the lines of a log; none if it cannot be read.
func (s Scene) log(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) []string {
	raw, err := s.Logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func last(n int, lines []string) []string { return lines[max(len(lines)-n, 0):] }

// members returns the member list, as the first member knows it that answers.
func (s Scene) members(ctx context.Context, pods []corev1.Pod) []string {
	for _, pod := range pods {
		if s.Logs == nil || pod.Labels[appsv1.StatefulSetRevisionLabel] == "" || pod.Status.PodIP == "" {
			continue
		}
		var config *tls.Config
		if s.TLS != nil {
			config = s.TLS(&pod)
		}
		endpoint := fmt.Sprintf("http%s://%s:2379", map[bool]string{true: "s"}[config != nil], pod.Status.PodIP)
		if said := listed(ctx, endpoint, config); said != "" {
			return []string{"members as " + pod.Name + " lists them: " + said}
		}
	}
	return nil
}

// listed returns the member list as a member knows it; empty if it does not answer.
func listed(ctx context.Context, endpoint string, config *tls.Config) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	member, err := etcdclient.NewDialer().Dial(endpoint, config)
	if err != nil {
		return ""
	}
	defer member.Close() //nolint:errcheck // it is not used any more
	members, err := member.Members(ctx)
	if err != nil {
		return ""
	}
	status, err := member.Status(ctx)
	var say []string
	for _, m := range members {
		role := map[bool]string{true: "learner", false: "voter"}[m.Learner]
		if err == nil && m.ID == status.Leader {
			role = "leader"
		}
		say = append(say, fmt.Sprintf("%s %s", cmp.Or(m.Name, "(not started)"), role))
	}
	return strings.Join(say, ", ")
}

// ofPod returns the state of a pod and of each of its containers.
func ofPod(pod corev1.Pod) string {
	say := fmt.Sprintf("pod %s (%s) %s", pod.Name, pod.Labels[appsv1.StatefulSetRevisionLabel], pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		say += ", being deleted"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			say += ", not scheduled: " + text.Clip(c.Message, width)
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		say += fmt.Sprintf("; %s %s", c.Name, ofState(c.State))
		if c.State.Running != nil && !c.Ready {
			say += ", not ready"
		}
		if c.RestartCount > 0 {
			say += fmt.Sprintf(", %d restarts", c.RestartCount)
		}
		if c.LastTerminationState.Terminated != nil && !c.Ready {
			say += ", before: " + ofState(c.LastTerminationState)
		}
	}
	return say
}

func ofState(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Terminated.Reason, s.Terminated.ExitCode, text.Clip(text.OneLine(s.Terminated.Message), width)))
	case s.Waiting != nil:
		return strings.TrimSpace(s.Waiting.Reason + " " + text.Clip(s.Waiting.Message, width))
	}
	return "waiting"
}

// initializing returns the end of the logs of init containers that are not done.
func (s Scene) initializing(ctx context.Context, pod corev1.Pod) (lines []string) {
	for _, c := range pod.Status.InitContainerStatuses {
		if s.Logs == nil || c.Ready {
			continue
		}
		for _, line := range s.log(ctx, &pod, &corev1.PodLogOptions{Container: c.Name, TailLines: ptr.To[int64](initLines)}) {
			lines = append(lines, "  "+c.Name+": "+text.Clip(line, width))
		}
	}
	return lines
}

// ofEtcd returns how far an Etcd is, and its conditions that are not as they should be; of those that say the same, the first.
func ofEtcd(etcd *v1alpha1.Etcd, now time.Time) []string {
	lines := []string{fmt.Sprintf("Etcd %s: %d replicas, generation %d, observed %d", etcd.Name, etcd.Spec.Replicas, etcd.Generation, etcd.Status.ObservedGeneration)}
	if etcd.DeletionTimestamp != nil {
		lines[0] += ", being deleted"
	}
	bad, said := []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionAlarmRaised}, map[string]bool{}
	for _, c := range etcd.Status.Conditions {
		if (c.Status == metav1.ConditionTrue) == slices.Contains(bad, c.Type) && !said[c.Message] {
			said[c.Message] = true
			lines = append(lines, fmt.Sprintf("  %s is %s (%s) for %s: %s", c.Type, c.Status, c.Reason, text.Since(c.LastTransitionTime.Time, now), text.Clip(c.Message, width)))
		}
	}
	return lines
}

// ofTask returns the state of a task, and unless it has succeeded, what blocks it or what it does, and its last error.
func ofTask(task *v1alpha1.EtcdOperatorTask, now time.Time) string {
	say := fmt.Sprintf("task %s (%s) %s", task.Name, task.Spec.Type, text.State(task))
	if task.Status.State == v1alpha1.TaskStateSucceeded {
		return say
	}
	say += ": " + text.Clip(cmp.Or(text.BlockedBy(task, now), text.Doing(task)), width)
	if o := task.Status.LastOperation; o != nil {
		say += fmt.Sprintf("; last operation %s %s", o.Name, o.State)
	}
	if n := len(task.Status.LastErrors); n > 0 {
		e := task.Status.LastErrors[n-1]
		say += fmt.Sprintf("; last error %s: %s", e.Code, text.Clip(e.Description, width))
	}
	return say
}
