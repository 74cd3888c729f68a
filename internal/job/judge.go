// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// startDeadline is how long the pod of a Job may take to start before the Job counts as failed. It allows for a new node and for
// retried image pulls. The pod may take as long to end after its agent.
const startDeadline = 3 * time.Minute

// State is the state of a Job.
type State struct {
	// Running: it is running, has not started yet, or its controller has yet to act on a pod that has ended.
	Running bool
	// Code is why it failed; empty if it is running or has succeeded.
	Code v1alpha1.ErrorCode
	// StartingSince is when the API server created what has not started, the Job or its newest pod, or when the agent ended beside containers
	// that run on; otherwise zero.
	StartingSince time.Time
	// RunningSince is when the container of the newest pod started; zero if it does not run.
	RunningSince time.Time
	// Message for people.
	Message string
	// Result of the agent: a JSON object.
	Result json.RawMessage
	// ResultGone: it has succeeded, and the pod that said the result no longer exists.
	ResultGone bool
}

// judge returns the state of a Job, given its pods. It is pure.
func judge(job *batchv1.Job, pods []corev1.Pod, now time.Time) State {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if complete := condition(job, batchv1.JobComplete); complete != nil {
		succeeded := newestSucceeded(pods)
		if succeeded == nil {
			return State{Message: "Job " + job.Name + " is complete", ResultGone: true}
		}
		return State{Message: "Job " + job.Name + " is complete", Result: object(succeeded.Message)}
	}
	for _, p := range pods {
		// A retry would run out of memory again.
		if t := terminated(p); t != nil && t.Reason == "OOMKilled" {
			return State{Code: v1alpha1.ErrJobOutOfMemory, Message: fmt.Sprintf("pod %s of Job %s was OOM-killed: it needs more memory than its limit, or its node has run out", p.Name, job.Name)}
		}
	}
	if failed := condition(job, batchv1.JobFailed); failed != nil {
		code := v1alpha1.ErrJobFailed
		if failed.Reason == batchv1.JobReasonDeadlineExceeded {
			code = v1alpha1.ErrDeadlineExceeded
		}
		return State{Code: code, Message: fmt.Sprintf("Job %s has failed (%s): %s", job.Name, failed.Reason, cmp.Or(lastWords(pods), failed.Message))}
	}
	return running(job, pods, now)
}

// running returns the State of a Job that has neither succeeded nor failed.
func running(job *batchv1.Job, pods []corev1.Pod, now time.Time) State {
	switch {
	case job.DeletionTimestamp != nil:
		return State{Running: true, Message: fmt.Sprintf("Job %s is being deleted", job.Name)}
	case len(pods) == 0 && hasHadPod(job):
		return State{Running: true, Message: fmt.Sprintf("Job %s has no pod left: the Job controller creates another or ends the Job; if this persists, check its events", job.Name)}
	case len(pods) == 0:
		return starting(job.Name, v1alpha1.ErrJobNotStarted, fmt.Sprintf("Job %s has no pod yet: if this persists, check its events", job.Name), job.CreationTimestamp.Time, now)
	}
	newest := pods[len(pods)-1]
	if since, others := outlived(newest); len(others) > 0 {
		return lingering(job, newest, since, others, now)
	}
	if hasEnded(newest) {
		return State{Running: true, Message: counting(job, newest, lastWords(pods))}
	}
	since := newest.CreationTimestamp.Time
	for _, c := range newest.Status.ContainerStatuses {
		w := c.State.Waiting
		switch {
		case c.State.Running != nil:
			return State{Running: true, RunningSince: c.State.Running.StartedAt.Time, Message: fmt.Sprintf("pod %s of Job %s is running", newest.Name, job.Name)}
		case w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing":
		case strings.Contains(w.Reason, "Image"):
			return starting(job.Name, v1alpha1.ErrJobImage, fmt.Sprintf("pod %s cannot get image %s: %s: %s", newest.Name, c.Image, w.Reason, w.Message), since, now)
		default:
			return starting(job.Name, v1alpha1.ErrJobNotStarted, fmt.Sprintf("pod %s is not starting: %s: %s", newest.Name, w.Reason, w.Message), since, now)
		}
	}
	for _, c := range newest.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return starting(job.Name, v1alpha1.ErrJobNotStarted, fmt.Sprintf("pod %s cannot be scheduled: %s", newest.Name, c.Message), since, now)
		}
	}
	return starting(job.Name, v1alpha1.ErrJobNotStarted, fmt.Sprintf("pod %s is being set up: if this persists, check its events; a claim or a Secret may be missing", newest.Name), since, now)
}

// hasHadPod reports whether the Job controller has recorded a pod. The controller needs a second or more to count one that has ended, and ten
// or more to replace it.
func hasHadPod(job *batchv1.Job) bool {
	s := job.Status
	uncounted := ptr.Deref(s.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	return s.Active+s.Failed+s.Succeeded > 0 || len(uncounted.Failed)+len(uncounted.Succeeded) > 0
}

// hasEnded reports whether the agent in a pod has ended, or will not start.
func hasEnded(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || terminated(p) != nil
}

// outlived returns when the agent in a pod ended, and the containers that others have added and that run on; none if the pod ends.
func outlived(p corev1.Pod) (since time.Time, others []string) {
	t := terminated(p)
	if t == nil || t.FinishedAt.IsZero() || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return time.Time{}, nil
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			others = append(others, c.Name)
		}
	}
	return t.FinishedAt.Time, others
}

// lingering returns the State of a Job whose agent has ended while other containers of its pod run, which is a failure after startDeadline: the Job
// would not end before its own deadline, hours later.
func lingering(job *batchv1.Job, p corev1.Pod, since time.Time, others []string, now time.Time) State {
	words := lastWords([]corev1.Pod{p})
	if now.Sub(since) < startDeadline {
		return State{Running: true, StartingSince: since, Message: counting(job, p, words)}
	}
	if words != "" {
		words = fmt.Sprintf(" (the agent said: %s)", words)
	}
	return State{Code: v1alpha1.ErrJobFailed, StartingSince: since, Message: fmt.Sprintf(
		"Job %s does not end: its agent has ended in pod %s, and %s later other containers of the pod run: %s%s. Keep them out of the pods of Jobs",
		job.Name, p.Name, startDeadline, strings.Join(others, ", "), words)}
}

// counting returns what to say of a Job while its controller has yet to count the newest pod, which has ended, or to replace it.
func counting(job *batchv1.Job, newest corev1.Pod, words string) string {
	if t := terminated(newest); newest.Status.Phase == corev1.PodFailed || t != nil && t.ExitCode != 0 {
		return fmt.Sprintf("pod %s of Job %s has failed; the Job retries: %s", newest.Name, job.Name, cmp.Or(words, newest.Status.Message))
	}
	return fmt.Sprintf("pod %s of Job %s has ended: waiting for the Job controller to count it; if this persists, check that kube-controller-manager runs", newest.Name, job.Name)
}

// starting returns the State of a Job whose pod has not started, which is a failure after startDeadline.
func starting(job string, code v1alpha1.ErrorCode, message string, since, now time.Time) State {
	if now.Sub(since) < startDeadline {
		return State{Running: true, StartingSince: since, Message: message}
	}
	return State{Code: code, StartingSince: since, Message: fmt.Sprintf("Job %s has not started within %s: %s", job, startDeadline, message)}
}

func condition(job *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Type == conditionType && c.Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

func terminated(p corev1.Pod) *corev1.ContainerStateTerminated {
	if c := pods.Container(&p, containerName); c != nil {
		return c.State.Terminated
	}
	return nil
}

// newestSucceeded returns how the agent ended in the newest pod in which it succeeded; nil if there is none.
func newestSucceeded(pods []corev1.Pod) *corev1.ContainerStateTerminated {
	for _, p := range slices.Backward(pods) {
		if t := terminated(p); t != nil && t.ExitCode == 0 {
			return t
		}
	}
	return nil
}

// unknownFlag is an agent's error about a flag of a later version.
const unknownFlag = "unknown flag: "

// lastWords returns the error of the newest pod that failed: that of the agent, or else its termination message. One about a flag says
// which image is too old.
func lastWords(pods []corev1.Pod) string {
	words, image := lastError(pods)
	if strings.Contains(words, unknownFlag) {
		return fmt.Sprintf("the agent of image %s is older than the operator: set spec.backup.image of the Etcd to the agent of the operator's version, or leave it out: %s", image, words)
	}
	return words
}

// lastError returns the error of the newest pod that failed, and the image of its agent.
func lastError(pods []corev1.Pod) (words, image string) {
	for _, p := range slices.Backward(pods) {
		t := terminated(p)
		if t == nil || t.ExitCode == 0 {
			continue
		}
		var told struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(object(t.Message), &told); err == nil && told.Error != "" {
			return told.Error, imageOf(p)
		}
		return fmt.Sprintf("pod %s exited with code %d: %s", p.Name, t.ExitCode, cmp.Or(strings.TrimSpace(t.Message), t.Reason)), imageOf(p)
	}
	return "", ""
}

// imageOf returns the image of the agent in a pod.
func imageOf(p corev1.Pod) string {
	if c := pods.Container(&p, containerName); c != nil {
		return c.Image
	}
	return ""
}

// object returns the last line of a text that is a JSON object; nil if there is none.
func object(text string) json.RawMessage {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(text), "\n")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") && json.Valid([]byte(line)) {
			return json.RawMessage(line)
		}
	}
	return nil
}

// HasEnded reports whether a Job has succeeded or failed.
func HasEnded(job *batchv1.Job) bool {
	return condition(job, batchv1.JobComplete) != nil || condition(job, batchv1.JobFailed) != nil
}
