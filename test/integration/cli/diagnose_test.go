// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// There is no node for a port-forward: nothing is measured, nothing is blamed, and what would help is named.
func TestDiagnoseWithoutPortForwards(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.members()
	got := p.run("diagnose", "main", "--for=5s", "--logs")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(
		ContainSubstring("quorum and alarms are not known. No task is running."),
		ContainSubstring("No member was measured, so nothing can be said about its speed."),
		MatchRegexp(`(?s)NOT SEEN\nmetrics: .*What would give it: the right to get and create pods/portforward`),
		ContainSubstring("Not judged, for lack of figures: NoQuorum,"),
		Not(ContainSubstring("To do:")),
	))

	got = p.run("diagnose", "etcd/main", "--for=5s", "-o=json")
	p.Expect(got.code).To(BeZero(), got.String())
	var said struct {
		Etcd      string
		Slow      bool
		Headline  string
		NotJudged []string
	}
	p.Expect(json.Unmarshal([]byte(got.out), &said)).To(Succeed())
	p.Expect(said.Etcd).To(Equal("main"))
	p.Expect(said.Slow).To(BeFalse())
	p.Expect(said.NotJudged).To(ContainElement("SlowDisk"))
}

// Without a StatefulSet no right is missing.
func TestDiagnoseWithoutAStatefulSet(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	got := p.run("diagnose", "main", "--for=5s")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(ContainSubstring(`What would give it: a StatefulSet; "kubectl etcdtask status main" says why there is none.`), Not(ContainSubstring("the right to"))))
}

// A user who may only view learns which right is missing, and what pods say.
func TestDiagnoseForAViewer(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.members()
	p.allow("viewer", "get", "list", "watch")
	p.allowRules("viewer-of-pods", "viewer", []string{"", "apps", "coordination.k8s.io"}, "get", "list", "watch")
	p.kubeconfig = p.impersonating("viewer")
	got := p.run("diagnose", "main", "--for=5s")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(
		MatchRegexp(`NOT SEEN\nmetrics: .*forbidden.* What would give it: the right to get and create pods/portforward`),
		Not(ContainSubstring("Memory,")), ContainSubstring("Not judged"),
	))
}

func TestDiagnoseUsage(t *testing.T) {
	p := newPerson(t)
	for says, args := range map[string][]string{
		"--for is 1s: it must be from 5s to 10m0s": {"diagnose", "main", "--for=1s"},
		"--show-keys needs --hot-prefixes":         {"diagnose", "main", "--show-keys"},
		"it must be json or yaml":                  {"diagnose", "main", "-o=name"},
		"--agent-token-file cannot be read":        {"diagnose", "main", "--agent-token-file=/no/such/file"},
		"is not an Etcd":                           {"diagnose", "etcdtask/main"},
	} {
		got := p.run(args...)
		p.Expect(got.code).To(Equal(2), got.String())
		p.Expect(got.err).To(ContainSubstring(says))
	}
	got := p.run("diagnose", "other")
	p.Expect(got.code).To(Equal(1))
	p.Expect(got.err).To(ContainSubstring(`there is no Etcd "other"`))
}

func backedUp(e *v1alpha1.Etcd) {
	e.Spec.Backup = &v1alpha1.BackupSpec{Image: ptr.To("x/agent"), Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "claim"}}
}

// diagnosisJob waits for the Job of a diagnosis.
func (p *person) diagnosisJob() *batchv1.Job {
	p.T.Helper()
	var all []batchv1.Job
	p.Eventually(func(g Gomega) {
		all = p.Jobs(g, v1alpha1.ComponentDiagnosisJob)
		g.Expect(all).To(HaveLen(1))
	}).Should(Succeed())
	return &all[0]
}

// end lets a Job end with what its agent says.
func (p *person) end(job *batchv1.Job, said corev1.ContainerStateTerminated, status batchv1.JobStatus) {
	p.T.Helper()
	pod, ended := env.PodOf(job, job.Name+"-pod", said)
	p.Create(pod)
	pod.Status = ended
	p.Expect(testEnv.Client.Status().Update(p.T.Context(), pod)).To(Succeed())
	job.Status = status
	p.Expect(testEnv.Client.Status().Update(p.T.Context(), job)).To(Succeed())
}

func (p *person) noJob() {
	p.T.Helper()
	p.Eventually(func(g Gomega) { g.Expect(p.Jobs(g)).To(BeEmpty()) }).Should(Succeed())
}

// What is large at rest is read by a Job from the newest full snapshot. The Job is the user's, and is deleted.
func TestDiagnoseLargePrefixes(t *testing.T) {
	t.Parallel()
	p := newPerson(t, backedUp)
	ends := p.start(t.Context(), "diagnose", "main", "--for=5s", "--large-prefixes")
	job := p.diagnosisJob()
	p.Expect(job.Name).To(Equal("main-diagnosis-x7k2p"))
	p.Expect(job.OwnerReferences).To(BeEmpty())
	p.Expect(job.Labels).NotTo(HaveKey(v1alpha1.LabelManagedBy), "the operator takes it for its own otherwise")
	p.Expect(job.Spec.Template.Labels).NotTo(HaveKey(v1alpha1.LabelManagedBy))
	p.Expect(*job.Spec.BackoffLimit).To(BeZero())
	p.Expect(*job.Spec.TTLSecondsAfterFinished).To(BeNumerically("<=", 60), "also if the plugin is killed, nothing is left")
	container := job.Spec.Template.Spec.Containers[0]
	p.Expect(container.Image).To(Equal("x/agent"))
	p.Expect(container.Args).To(And(HaveExactElements(HavePrefix("snapshot-prefixes"), Not(BeEmpty()), Not(BeEmpty()), Not(BeEmpty()), Equal("--work-dir=/var/etcd/work"))))
	p.end(job, corev1.ContainerStateTerminated{Message: `{"snapshot": "Full-00000000-00000009-1.gz", "created": "2026-07-01T12:00:00Z", "database": 2097152, "keys": 12, "stored": 1048576, ` +
		`"prefixes": [{"prefix": "/registry/pods/…", "keys": 10, "bytes": 2048, "largest": 300, "revisions": 40, "deletions": 3, "stored": 786432}, {"prefix": "…", "keys": 2}]}`}, env.Succeeded())
	got := ends()
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.err).To(ContainSubstring("Job main-diagnosis-x7k2p reads the newest full snapshot. It is deleted afterwards."))
	p.Expect(got.out).To(MatchRegexp(`LARGE PREFIXES\nIn full snapshot Full-00000000-00000009-1.gz, taken .* ago: 12 keys, 1.0MiB with earlier revisions, in a database of 2.0MiB.\n` +
		`PREFIX +STORED +SHARE +KEYS +PRESENT +LARGEST +REVISIONS +DELETIONS\n/registry/pods/… +768KiB +75% +10 +2.0KiB +300B +40 +3\n… `))
	p.noJob()
}

// A Job that fails says why, one that the user does not wait for is deleted, and who may create none learns what would be needed.
func TestDiagnoseLargePrefixesInVain(t *testing.T) {
	t.Parallel()
	p := newPerson(t, backedUp)
	ends := p.start(t.Context(), "diagnose", "main", "--for=5s", "--large-prefixes")
	failed := batchv1.JobStatus{StartTime: ptr.To(metav1.Now()), Failed: 1, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}, {Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"},
	}}
	p.end(p.diagnosisJob(), corev1.ContainerStateTerminated{ExitCode: 1, Message: `{"error": "looking for a backup in /x: there is no full snapshot"}`}, failed)
	got := ends()
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(MatchRegexp(`large prefixes: .*there is no full snapshot.* What would give it: a backup store with a full snapshot`))
	p.noJob()

	ctx, interrupt := context.WithCancel(t.Context())
	ends = p.start(ctx, "diagnose", "main", "--for=5s", "--large-prefixes")
	p.diagnosisJob()
	interrupt()
	p.Expect(ends().code).NotTo(BeZero())
	p.noJob()

	p.allow("viewer", "get", "list", "watch")
	p.allowRules("viewer-of-pods", "viewer", []string{"", "apps", "coordination.k8s.io"}, "get", "list", "watch")
	p.kubeconfig = p.impersonating("viewer")
	got = p.run("diagnose", "main", "--for=5s", "--large-prefixes")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(MatchRegexp(`large prefixes: .*jobs.batch is forbidden.* What would give it: .*the right to create, get and delete Jobs`))

	without := newPerson(t)
	got = without.run("diagnose", "main", "--for=5s", "--large-prefixes")
	p.Expect(got.out).To(ContainSubstring("large prefixes: Etcd main has no backup store, or no pod with an agent."))
}
