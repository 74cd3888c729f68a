// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func jobWith(conditions ...batchv1.JobCondition) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", CreationTimestamp: metav1.Time{Time: epoch}},
		Status:     batchv1.JobStatus{Conditions: conditions},
	}
}

func podWith(name string, state corev1.ContainerState, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: epoch}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, Image: "x/agent", State: state}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}
}

// atEpoch has a container end then.
func atEpoch(state corev1.ContainerState) corev1.ContainerState {
	state.Terminated.FinishedAt = metav1.Time{Time: epoch}
	return state
}

func ended(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

func TestJudge(t *testing.T) {
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too often"}
	late := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "too long"}
	unschedulable := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = nil
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}
	}
	inPhase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	gone := inPhase(corev1.PodFailed)
	// beside is a container that an admission webhook has added.
	beside := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	terminates := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }
	evicted := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}
	}
	counted := func(s batchv1.JobStatus) *batchv1.Job {
		j := jobWith()
		j.Status = s
		return j
	}
	going := func() *batchv1.Job {
		j := jobWith()
		j.DeletionTimestamp = &metav1.Time{Time: epoch.Add(time.Hour)}
		return j
	}
	for name, c := range map[string]struct {
		job     *batchv1.Job
		pods    []corev1.Pod
		after   time.Duration
		running bool
		code    v1alpha1.ErrorCode
		says    string
		result  string
		gone    bool
	}{
		"no pod yet":                     {job: jobWith(), running: true, says: "no pod yet"},
		"no pod at all":                  {job: jobWith(), after: time.Hour, code: v1alpha1.ErrJobNotStarted, says: "check its events"},
		"it runs":                        {job: jobWith(), pods: []corev1.Pod{podWith("p", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})}, after: time.Hour, running: true},
		"it is set up":                   {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting("ContainerCreating"))}, running: true},
		"a Secret lacks":                 {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting("ContainerCreating"))}, after: time.Hour, code: v1alpha1.ErrJobNotStarted, says: "Secret may be missing"},
		"no image yet":                   {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting("ErrImagePull"))}, running: true, says: "cannot get image x/agent"},
		"no image":                       {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting("ImagePullBackOff"))}, after: time.Hour, code: v1alpha1.ErrJobImage, says: "cannot get image x/agent: ImagePullBackOff: because"},
		"bad config":                     {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting("CreateContainerConfigError"))}, after: time.Hour, code: v1alpha1.ErrJobNotStarted, says: "because"},
		"no node":                        {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting(""), unschedulable)}, after: time.Hour, code: v1alpha1.ErrJobNotStarted, says: "0/3 nodes"},
		"out of memory":                  {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(137, "OOMKilled", ""))}, code: v1alpha1.ErrJobOutOfMemory, says: "more memory"},
		"failed once":                    {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(1, "Error", `{"error":"the store is away"}`), gone)}, after: time.Hour, running: true, says: "the Job retries: the store is away"},
		"it has ended":                   {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(0, "Completed", `{"copied":3}`), inPhase(corev1.PodSucceeded))}, after: time.Hour, running: true, says: "pod p of Job j has ended: waiting for the Job controller to count it"},
		"its agent has ended":            {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(0, "Completed", `{"copied":3}`), inPhase(corev1.PodRunning))}, after: time.Hour, running: true, says: "waiting for the Job controller"},
		"its agent has failed":           {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(1, "Error", `{"error":"the store is away"}`), inPhase(corev1.PodRunning))}, after: time.Hour, running: true, says: "the Job retries: the store is away"},
		"another container runs on":      {job: jobWith(), pods: []corev1.Pod{podWith("p", atEpoch(ended(0, "Completed", `{"copied":3}`)), beside)}, after: startDeadline, code: v1alpha1.ErrJobFailed, says: "Job j does not end: its agent has ended in pod p, and 3m0s later other containers of the pod run: mesh"},
		"it failed, and another runs on": {job: jobWith(), pods: []corev1.Pod{podWith("p", atEpoch(ended(1, "Error", `{"error":"the store is away"}`)), beside)}, after: time.Hour, code: v1alpha1.ErrJobFailed, says: "run: mesh (the agent said: the store is away)"},
		"another runs on, since when is not known": {job: jobWith(), pods: []corev1.Pod{podWith("p", ended(0, "Completed", ""), beside)}, after: time.Hour, running: true, says: "pod p of Job j has ended"},
		"another container may end yet":            {job: jobWith(), pods: []corev1.Pod{podWith("p", atEpoch(ended(0, "Completed", `{"copied":3}`)), beside)}, after: startDeadline - 1, running: true, says: "pod p of Job j has ended"},
		"another runs, and the pod is going":       {job: jobWith(), pods: []corev1.Pod{podWith("p", atEpoch(ended(0, "Completed", `{"copied":3}`)), beside, terminates)}, after: time.Hour, running: true, says: "pod p of Job j has ended"},
		"another ran, and the pod has ended":       {job: jobWith(), pods: []corev1.Pod{podWith("p", atEpoch(ended(0, "Completed", `{"copied":3}`)), beside, inPhase(corev1.PodSucceeded))}, after: time.Hour, running: true, says: "pod p of Job j has ended"},
		"evicted":                                  {job: jobWith(), pods: []corev1.Pod{podWith("p", waiting(""), evicted)}, after: time.Hour, running: true, says: "the Job retries: the node was low on memory"},
		"its pod was deleted":                      {job: counted(batchv1.JobStatus{Failed: 1}), after: time.Hour, running: true, says: "Job j has no pod left: the Job controller creates another"},
		"its pod is being counted":                 {job: counted(batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"p"}}}), after: time.Hour, running: true, says: "no pod left"},
		"its pod is gone, and not counted":         {job: counted(batchv1.JobStatus{Active: 1}), after: time.Hour, running: true, says: "no pod left"},
		"its pod has succeeded, and is gone":       {job: counted(batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"p"}}}), after: time.Hour, running: true, says: "no pod left"},
		"nothing was counted":                      {job: counted(batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}), after: time.Hour, code: v1alpha1.ErrJobNotStarted, says: "no pod yet"},
		"it is being deleted":                      {job: going(), after: time.Hour, running: true, says: "Job j is being deleted"},
		"failed":                                   {job: jobWith(failed), pods: []corev1.Pod{podWith("p", ended(1, "Error", "log\n"+`{"error":"the store is away"}`))}, code: v1alpha1.ErrJobFailed, says: "(BackoffLimitExceeded): the store is away"},
		"failed, silent":                           {job: jobWith(failed), code: v1alpha1.ErrJobFailed, says: "too often"},
		"crashed":                                  {job: jobWith(failed), pods: []corev1.Pod{podWith("p", ended(2, "Error", "panic: x"))}, code: v1alpha1.ErrJobFailed, says: "exited with code 2: panic: x"},
		"an earlier agent":                         {job: jobWith(failed), pods: []corev1.Pod{podWith("p", ended(1, "Error", `{"msg":"Failed","error":"unknown flag: --full-snapshot-schedule"}`))}, code: v1alpha1.ErrJobFailed, says: "the agent of image x/agent is older than the operator: set spec.backup.image of the Etcd to the agent of the operator's version, or leave it out: unknown flag: --full-snapshot-schedule"},
		"took too long":                            {job: jobWith(late), code: v1alpha1.ErrDeadlineExceeded, says: "too long"},
		"complete":                                 {job: jobWith(complete), pods: []corev1.Pod{podWith("a", ended(1, "Error", "")), podWith("b", ended(0, "Completed", "log\n"+`{"copied":3}`))}, result: `{"copied":3}`},
		"complete without a result":                {job: jobWith(complete), pods: []corev1.Pod{podWith("p", ended(0, "Completed", "log"))}},
		"complete, its pods are gone":              {job: jobWith(complete), gone: true},
		"complete, only a failed pod is left":      {job: jobWith(complete), pods: []corev1.Pod{podWith("p", ended(1, "Error", "{}"))}, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := judge(c.job, c.pods, epoch.Add(c.after))
			g.Expect(s.Running).To(Equal(c.running), s.Message)
			g.Expect(s.Code).To(Equal(c.code), s.Message)
			g.Expect(s.Message).To(ContainSubstring(c.says))
			g.Expect(string(s.Result)).To(Equal(c.result))
			g.Expect(s.ResultGone).To(Equal(c.gone))
		})
	}
}

func TestBuild(t *testing.T) {
	g := NewWithT(t)
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-very-long-name-of-a-task-that-is-longer-than-a-name-of-a-pod-may-be", UID: "1"}}
	task.Spec.OwnerEtcdReference.Name = "main"
	access, err := storeaccess.Of(v1alpha1.StoreSpec{Provider: "aws", Container: "bucket", Prefix: "p", SecretRef: &v1alpha1.SecretReference{Name: "s"}}, "ns", storeaccess.Main)
	g.Expect(err).NotTo(HaveOccurred())
	j, err := Build(Spec{Owner: OfTask(task), Component: "c", Image: "x/agent", Args: []string{"compact"}, Stores: []storeaccess.Access{access}, WorkDir: true, Timeout: time.Minute})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(j.Name)).To(BeNumerically("<=", 63))
	g.Expect(*j.Spec.ActiveDeadlineSeconds).To(Equal(int64(60)))
	g.Expect(j.OwnerReferences[0].UID).To(Equal(task.UID))
	c := j.Spec.Template.Spec.Containers[0]
	g.Expect(c.Args[0]).To(Equal("compact"))
	g.Expect(c.Args).To(ContainElements("--store-provider=S3", "--store-container=bucket", "--work-dir=/var/etcd/work"))
	g.Expect(j.Spec.Template.Spec.Volumes).To(HaveLen(2))
	g.Expect(j.Spec.Template.Spec.Volumes[0].Secret.SecretName).To(Equal("s"))
	g.Expect(c.VolumeMounts[0].ReadOnly).To(BeTrue())

	other := task.DeepCopy()
	other.UID = "2"
	g.Expect(Name(other)).NotTo(Equal(Name(task)), "a task that is created again has a Job of its own")
}

// A Job of an Etcd itself is removed with it, and says what it was made for.
func TestJobOfAnEtcd(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "task"}}
	j, err := Build(Spec{Owner: OfEtcd(etcd), Name: Name(etcd) + "-final", Subject: "7/claim", Component: "c", Image: "x/agent", Claim: "main-main-0", ClaimDir: "/data", Timeout: time.Minute})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(Name(etcd)).NotTo(Equal(Name(task)))
	g.Expect(j.Name).To(Equal(Name(etcd) + "-final"))
	g.Expect(metav1.IsControlledBy(j, etcd)).To(BeTrue())
	g.Expect(j.Labels).To(HaveKeyWithValue(v1alpha1.LabelPartOf, "main"))
	g.Expect(j.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationJobSubject, "7/claim"))
	g.Expect(j.Spec.Template.Spec.Containers[0].VolumeMounts).To(HaveEach(HaveField("ReadOnly", true)))
}
