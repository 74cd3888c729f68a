// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose/diagnosetest"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The page reads aloud, in any width, from what was recorded of etcd.
func TestPage(t *testing.T) {
	for _, name := range []string{"healthy", "slow-disk-single", "fragmentation", "member-down", "cpu-stopped-etcd"} {
		r, err := diagnosetest.Load(filepath.Join("..", "..", "diagnose", "testdata", name))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		check(t, name, r.Input)
	}
	forbidden := "not permitted: pods \"etcd-main-0\" is forbidden: User \"viewer\" cannot create resource \"pods/portforward\" in API group \"\" in the namespace \"demo\""
	viewer := diagnose.Input{
		Namespace: "demo", Etcd: "etcd-main", Window: 30 * time.Second,
		Tasks: []diagnose.Task{{Name: "etcd-main-defrag-x7k2p", Type: "OnDemandMaintenance"}},
		Members: []diagnose.Member{
			{Name: "etcd-main-0", Serving: true, Pod: &diagnose.Pod{Ended: "OOMKilled", EndedAgo: 12 * time.Minute, Running: 11 * time.Minute}},
			{Name: "etcd-main-1", Serving: true, Pod: &diagnose.Pod{}},
		},
		Missing: []diagnose.Missing{
			{Signal: diagnose.SignalMetrics, Why: forbidden, Remedy: portForwardRemedy},
			{Signal: diagnose.SignalLogs, Member: "etcd-main-0", Why: "not permitted: x", Remedy: "y"},
			{Signal: diagnose.SignalLogs, Member: "etcd-main-1", Why: "not permitted: x", Remedy: "y"},
		},
	}
	check(t, "viewer", viewer)
	viewer.Members = nil
	check(t, "blind", viewer)
	r, err := diagnosetest.Load(filepath.Join("..", "..", "diagnose", "testdata", "write-storm"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	r.Input.Events = 1000
	r.Input.HotPrefixes = []diagnose.HotPrefix{{Prefix: "/registry/events/…", Events: 900, Bytes: 90 << 20}, {Prefix: "…", Events: 100, Bytes: 1000}}
	r.Input.Counted = &diagnose.Counted{Member: "etcd-main-0"}
	check(t, "write-storm", r.Input)
	r.Input.HotKeys = []diagnose.HotPrefix{{Prefix: "/registry/events/default/a.17f", Events: 90, Bytes: 9 << 20}}
	check(t, "hot-keys", r.Input)
	slow := r.Input
	slow.HotPrefixes, slow.HotKeys, slow.Counted, slow.Members = nil, nil, nil, slices.Clone(slow.Members)
	slow.Members[0].FailedReads, slow.Members[0].First.Metrics = 3, nil
	check(t, "no-cause", slow)
	r.Input.HotKeys, r.Input.AtRest = nil, &diagnose.AtRest{
		Snapshot: "Full-00000000-01203333-1795824000.gz", Created: clitest.Now, Age: 3 * time.Hour, Database: 2 << 30, Keys: 101_204, Stored: 1 << 30,
		Prefixes: []diagnose.StoredPrefix{
			{Prefix: "/registry/events/…", Keys: 100_000, Bytes: 200 << 20, Largest: 8 << 10, Revisions: 400_000, Deletions: 90_000, Stored: 900 << 20},
			{Prefix: "…", Keys: 1204, Bytes: 100 << 20, Largest: 1_400_000, Revisions: 1300, Stored: 124 << 20},
		},
	}
	check(t, "large-prefixes", r.Input)
}

func check(t *testing.T, name string, in diagnose.Input) {
	t.Helper()
	v := diagnose.Judge(in)
	for suffix, width := range map[string]int{"": 0, "-80": 80} {
		golden.Check(t, name+suffix+".txt", []byte(strings.Join(lines(in, v, width), "\n")+"\n"))
	}
	raw, err := json.MarshalIndent(newDocument(in, v), "", "  ")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	golden.Check(t, name+".json", append(raw, '\n'))
}

// A user who can reach no member learns what the operator has last seen of them, unless that contradicts itself.
func TestReported(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{MemberNamePrefix: ptr.To("shoot")}, Status: v1alpha1.EtcdStatus{Members: []v1alpha1.Member{
		{Name: "shoot-main-0", Role: v1alpha1.MemberRoleLeader, Status: v1alpha1.MemberReady},
		{Name: "shoot-main-1", Role: v1alpha1.MemberRoleMember, Status: v1alpha1.MemberUnknown},
		{Name: "shoot-main-2", Status: v1alpha1.MemberNotReady},
		{Name: "shoot-main-3", Role: v1alpha1.MemberRoleLearner, Status: v1alpha1.MemberReady},
	}}}
	quorum, _ := Reported(etcd)
	g.Expect(quorum).To(BeNil(), "the operator has not said that there is one")
	etcd.Status.Conditions = v1alpha1.Conditions{{Condition: metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}}
	quorum, members := Reported(etcd)
	g.Expect(quorum).To(Equal(&diagnose.Quorum{Voters: 3, Serving: 2, Size: 2, Reported: true}))
	g.Expect(members).To(HaveLen(4))
	g.Expect(members["main-2"]).To(Equal(diagnose.Member{Name: "main-2", Reported: true, RoleUnknown: true}))
	in := diagnose.Input{Namespace: "demo", Etcd: "main", Quorum: quorum, Members: slices.SortedFunc(maps.Values(members), func(a, b diagnose.Member) int { return strings.Compare(a.Name, b.Name) })}
	check(t, "reported", in)

	// What the operator has seen at some time proves nothing about now.
	for _, f := range diagnose.Judge(in).Findings {
		g.Expect(f.Grade).To(Equal(diagnose.Hint))
		for _, e := range f.Evidence {
			g.Expect(e.Source).To(ContainSubstring("as the operator last reported"))
		}
	}

	etcd.Status.Members[1].Status = v1alpha1.MemberNotReady
	quorum, _ = Reported(etcd)
	g.Expect(quorum).To(BeNil(), "a member that may still join does not vote")
	etcd.Status.Conditions[0].Status = metav1.ConditionFalse
	quorum, members = Reported(etcd)
	g.Expect(quorum.Serving).To(Equal(1))
	lost := diagnose.Judge(diagnose.Input{Quorum: quorum, Members: slices.Collect(maps.Values(members))}).Findings
	g.Expect(lost[0].Cause).To(Equal(diagnose.NoQuorum))
	g.Expect(lost[0].Grade).To(Equal(diagnose.Hint))
	g.Expect(lost[0].Evidence[0].Source).To(ContainSubstring("as the operator last reported"))
	quorum, members = Reported(&v1alpha1.Etcd{})
	g.Expect(quorum).To(BeNil())
	g.Expect(members).To(BeEmpty())
}

// A pod whose member is not in the list yet, because it prepares, or is a learner, is no voter that is down.
func TestPodsThatDoNotVoteYet(t *testing.T) {
	g := NewWithT(t)
	s := &cluster.Snapshot{
		Cluster: cluster.Cluster{Reachable: true, Leader: 1, LeaderKnown: true, Voters: []cluster.Voter{{ID: 1, Name: "m-0", Serving: true}}},
		Ordinals: []cluster.Ordinal{
			{Name: "m-0", MemberID: 1, Answers: true, Serving: true, Role: v1alpha1.RoleLeader, Class: v1alpha1.ClassParticipating, Pod: &cluster.Pod{}},
			{Name: "m-1", Role: v1alpha1.RoleUnknown, Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{}},
			{Name: "m-2", MemberID: 3, Role: v1alpha1.RoleUnknown, Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{}},
		},
	}
	in := Known(s, nil, nil)
	g.Expect(diagnose.Judge(in).Findings).To(BeEmpty(), "what status says")
	in.Window, in.Members[0].Linearizable = time.Minute, slices.Repeat([]time.Duration{2 * time.Millisecond}, 20)
	// A learner that does not answer yet, while its agent does.
	in.Members[2].FailedReads, in.Members[2].AgentPings = 4, slices.Repeat([]time.Duration{time.Millisecond}, 20)
	v := diagnose.Judge(in)
	g.Expect(v.Findings).To(BeEmpty())
	g.Expect(v.Headline).To(Equal("etcd answers in 2 ms: it is not etcd."))
	s.Cluster.Voters = nil
	in = Known(s, nil, nil)
	g.Expect(diagnose.Judge(in).Findings).To(BeEmpty(), "without a list, it is not known who votes")
	in.Members[2].FailedReads = 4
	g.Expect(diagnose.Judge(in).Symptoms).NotTo(BeEmpty())
	s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 1, Serving: true}, cluster.Voter{ID: 3, Name: "m-2", Ordinal: 2})
	v = diagnose.Judge(Known(s, nil, nil))
	g.Expect(v.Findings[0].Cause).To(Equal(diagnose.NoQuorum))
	g.Expect(v.Findings[1].Cause).To(Equal(diagnose.MemberDown))
	g.Expect(v.Findings[1].Members).To(Equal([]string{"m-2"}))
}

// A pod has an address before its containers run, and no port-forward reaches it.
func TestTargets(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	w, o := &gatherer{pods: map[string]*corev1.Pod{"m-1": pod}}, cluster.Ordinal{Name: "m-1", Pod: &cluster.Pod{Endpoint: "https://10.0.0.1:2379"}}
	g.Expect(w.isTarget(o)).To(BeFalse())
	pod.Status.Phase = corev1.PodRunning
	g.Expect(w.isTarget(o)).To(BeTrue())
	g.Expect(w.isTarget(cluster.Ordinal{Name: "m-1", Pod: &cluster.Pod{}})).To(BeFalse())
	g.Expect(w.isTarget(cluster.Ordinal{Name: "m-2", Pod: o.Pod})).To(BeFalse())
}

// What a kubelet measures of the volume of backups does not count for that of the data.
func TestKubeletOfTheDataVolume(t *testing.T) {
	g := NewWithT(t)
	const free = "kubelet_volume_stats_available_bytes"
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/cadvisor") {
			_, _ = fmt.Fprintf(w, "# TYPE %[1]s gauge\n%[1]s{namespace=\"demo\",persistentvolumeclaim=\"data-m-0\"} 10\n%[1]s{namespace=\"demo\",persistentvolumeclaim=\"backups\"} 99\n", free)
		}
	}))
	defer node.Close()
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	w := &gatherer{cluster: &kube.Cluster{Config: &rest.Config{Host: node.URL}}}
	got, err := w.kubelet(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-0", Namespace: "demo"}, Spec: corev1.PodSpec{
		NodeName: "node-1",
		Volumes:  []corev1.Volume{{Name: "data", VolumeSource: claim("data-m-0")}, {Name: "store", VolumeSource: claim("backups")}},
		Containers: []corev1.Container{
			{Name: v1alpha1.ContainerEtcd, VolumeMounts: []corev1.VolumeMount{{Name: "config"}, {Name: "data"}}},
			{Name: v1alpha1.ContainerBackupRestore, VolumeMounts: []corev1.VolumeMount{{Name: "data"}, {Name: "store"}}},
		},
	}})(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got[free]).To(HaveLen(1))
	g.Expect(got[free][0].Value).To(Equal(10.0))
}

// A task that ran in a part of the measurement ran in it.
func TestTasksOfTheMeasurement(t *testing.T) {
	g := NewWithT(t)
	at := func(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		task := clitest.Task(name, v1alpha1.QuorumAwareRollout, state, 60)
		task.ResourceVersion, task.Spec.OwnerEtcdReference.Name = "", "main"
		if state != v1alpha1.TaskStatePending {
			task.Status.InitiatedAt = ptr.To(clitest.Ago(50))
		}
		return task
	}
	all := map[string]*v1alpha1.EtcdOperatorTask{}
	build := fakeclient.NewClientBuilder().WithScheme(kube.Scheme()).WithIndex(&v1alpha1.EtcdOperatorTask{}, "spec.ownerEtcdReference.name", func(o client.Object) []string {
		return []string{o.(*v1alpha1.EtcdOperatorTask).Spec.OwnerEtcdReference.Name}
	})
	for name, state := range map[string]v1alpha1.TaskState{
		"begins": v1alpha1.TaskStatePending, "ends": v1alpha1.TaskStateInProgress, "before": v1alpha1.TaskStateSucceeded, "waits": v1alpha1.TaskStatePending,
		"goes": v1alpha1.TaskStateInProgress, "refused": v1alpha1.TaskStatePending,
	} {
		all[name] = at(name, state)
		build.WithObjects(all[name])
	}
	c := build.Build()
	become := func(name string, state v1alpha1.TaskState) {
		all[name].Status.State, all[name].Status.InitiatedAt = state, ptr.To(clitest.Ago(1))
		g.Expect(c.Update(t.Context(), all[name])).To(Succeed())
	}
	in, err := Gather(t.Context(), &kube.Cluster{WithWatch: c, Config: &rest.Config{}, Namespace: "demo"}, clock.RealClock{},
		&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}},
		Options{Window: 10 * time.Millisecond, Progress: func(int) func() {
			become("begins", v1alpha1.TaskStateInProgress)
			become("ends", v1alpha1.TaskStateFailed)
			become("refused", v1alpha1.TaskStateRejected)
			g.Expect(c.Delete(t.Context(), all["goes"])).To(Succeed())
			g.Expect(c.Create(t.Context(), at("short", v1alpha1.TaskStateSucceeded))).To(Succeed())
			return func() {}
		}})
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, task := range in.Tasks {
		names = append(names, task.Name)
	}
	g.Expect(names).To(ConsistOf("begins", "ends", "goes", "short"))
}

// Of a member of which only metrics are known, the role is not.
func TestRolesThatAreNotKnown(t *testing.T) {
	g := NewWithT(t)
	w := &gatherer{etcd: &v1alpha1.Etcd{}, pods: map[string]*corev1.Pod{"m-0": {}, "m-1": {}}}
	w.etcd.Status.Members = []v1alpha1.Member{{Name: "m-1", Role: v1alpha1.MemberRoleMember, Status: v1alpha1.MemberReady}}
	w.addReported()
	for i := range w.in.Members {
		w.in.Members[i].First.Metrics = diagnose.DatabaseMetrics(1, 1, 1)
		w.in.Members[i].Second.Metrics = w.in.Members[i].First.Metrics
	}
	g.Expect(w.in.Figures()).To(HaveExactElements(And(HaveField("Member", "m-0"), HaveField("Role", "")), And(HaveField("Member", "m-1"), HaveField("Role", "follower"))))

	// A voter that does not answer, and that its probe vouches for.
	silent := Known(&cluster.Snapshot{
		Cluster: cluster.Cluster{Reachable: true, Voters: []cluster.Voter{{Ordinal: 0, Serving: true}}}, Ordinals: []cluster.Ordinal{{Name: "m-0", Role: v1alpha1.RoleUnknown}},
	}, nil, map[string]etcdclient.Database{"m-0": {Size: 1}})
	g.Expect(silent.Figures()).To(HaveExactElements(And(HaveField("Member", "m-0"), HaveField("Role", ""))))
}

// fake is a member that answers.
type fake struct {
	etcdclient.Client
	reads atomic.Int32
	err   error
}

func (f *fake) Read(context.Context, bool) error {
	f.reads.Add(1)
	return f.err
}

func (f *fake) Status(context.Context) (etcdclient.Status, error) {
	return etcdclient.Status{Version: "3.7.3", Term: 2, CommittedIndex: 7, AppliedIndex: 6}, nil
}

const scrapeText = "# TYPE etcd_mvcc_put_total counter\netcd_mvcc_put_total %d\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1\n"

func TestMeasure(t *testing.T) {
	g := NewWithT(t)
	var scrapes atomic.Int32
	var tokens, leaked atomic.Int32
	etcd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		if r.URL.Path == "/metrics" {
			_, _ = fmt.Fprintf(w, scrapeText, 10*scrapes.Add(1))
			return
		}
		http.NotFound(w, r)
	}))
	defer etcd.Close()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && r.Header.Get("Authorization") == "Bearer secret" {
			tokens.Add(1)
		} else if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer agent.Close()
	member := &fake{}
	got := Measure(t.Context(), []Target{{
		Name: "m-0", HTTP: etcd.Client(), AgentHTTP: agent.Client(), Metrics: etcd.URL + "/metrics", Ping: etcd.URL + "/no", Agent: agent.URL + "/metrics",
		AgentPing: agent.URL + "/no", AgentToken: "secret", Etcd: member,
		Kubelet: func(context.Context) (diagnose.Metrics, error) { return nil, errors.New("nodes/proxy is forbidden") },
	}, {Name: "m-1"}}, 500*time.Millisecond, clock.RealClock{})
	g.Expect(got).To(HaveLen(2))
	m := got[0]
	g.Expect(m.First.Metrics["etcd_mvcc_put_total"][0].Value).To(Equal(10.0))
	g.Expect(m.Second.Metrics["etcd_mvcc_put_total"][0].Value).To(Equal(20.0))
	g.Expect(m.Second.Status).To(Equal(&diagnose.Status{Version: "3.7.3", Term: 2, Committed: 7, Applied: 6}))
	g.Expect(m.Linearizable).NotTo(BeEmpty())
	g.Expect(m.Serializable).NotTo(BeEmpty())
	g.Expect(m.Pings).NotTo(BeEmpty())
	g.Expect(m.AgentPings).NotTo(BeEmpty())
	g.Expect(m.FailedReads).To(BeZero())
	g.Expect(leaked.Load()).To(BeZero(), "the token is for the agent's metrics alone")
	g.Expect(tokens.Load()).To(Equal(int32(2)))
	g.Expect(m.Missing).To(ConsistOf(
		HaveField("Signal", diagnose.SignalAgent), And(HaveField("Signal", diagnose.SignalKubelet), HaveField("Why", "nodes/proxy is forbidden")),
	), "each is said once")
	g.Expect(got[1].Missing).To(BeEmpty())
}

// A member that gives no answer is slow; one that refuses is not.
func TestReadsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		lost   error
		failed bool
	}{
		"no answer":                             {context.DeadlineExceeded, nil, true},
		"no answer, and the port-forward ended": {context.DeadlineExceeded, portforward.ErrLostConnectionToPod, false},
		"refused":                               {errors.New("reading a key: etcdserver: user name is empty"), nil, false},
		"one side refuses the certificate":      {status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate"`), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Measure(t.Context(), []Target{{Name: "m-0", Etcd: &fake{err: c.err}, Lost: func() error { return c.lost }}}, 100*time.Millisecond, clock.RealClock{})
			g.Expect(got[0].FailedReads > 0).To(Equal(c.failed))
			g.Expect(got[0].Linearizable).To(BeEmpty())
			g.Expect(len(got[0].Missing) > 0).To(Equal(!c.failed))
		})
	}
}

func TestPodFacts(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: v1alpha1.ContainerBackupRestore},
			{Name: v1alpha1.ContainerEtcd, Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}, {Name: "metrics", ContainerPort: 9095}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}},
		}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: v1alpha1.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: clitest.Ago(60)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", FinishedAt: clitest.Ago(70)}},
		}}},
	}
	g.Expect(podFacts(pod, clitest.Now)).To(Equal(&diagnose.Pod{
		Node: "node-1", Ended: "OOMKilled", EndedAgo: 70 * time.Second, Running: time.Minute, CPULimit: 0.5, MemLimit: 1 << 30,
	}))
	g.Expect(portOf(pod, v1alpha1.ContainerEtcd, metricsPort)).To(Equal(9095))
	g.Expect(portOf(pod, v1alpha1.ContainerBackupRestore, "")).To(BeZero())
	g.Expect(podFacts(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, clitest.Now)).To(Equal(&diagnose.Pod{}))
}

func TestFlags(t *testing.T) {
	g := NewWithT(t)
	for window, valid := range map[time.Duration]bool{time.Second: false, 5 * time.Second: true, 10 * time.Minute: true, time.Hour: false} {
		g.Expect((&command{window: window}).validate() == nil).To(Equal(valid), "%s", window)
	}
	g.Expect((&command{window: time.Minute, output: "name"}).validate()).To(MatchError(ContainSubstring("json or yaml")))
}

func TestProgress(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	k := kube.New(genericiooptions.IOStreams{ErrOut: &out})
	k.Clock = testingclock.NewFakeClock(clitest.Now)
	c := &command{Kube: k, window: 30 * time.Second}
	c.progress(0)()
	g.Expect(out.String()).To(BeEmpty())
	c.progress(3)()
	g.Expect(out.String()).To(Equal("Measuring 3 members for 30s. Nothing is changed.\n"))
}

// However long the name of an Etcd is, that of its Job fits into a label.
func TestJobName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(jobName("main", "x7k2p")).To(Equal("main-diagnosis-x7k2p"))
	g.Expect(jobName(strings.Repeat("x", 39)+"-"+strings.Repeat("y", 30), "x7k2p")).To(Equal(strings.Repeat("x", 39) + "-diagnosis-x7k2p"))
}

// changing is a member that is written to.
type changing struct {
	bytes, behind int64
	seen          int
	err           error
	// late: the error comes when the context has ended.
	late bool
}

func (c *changing) Watch(ctx context.Context, see func(etcdclient.Change) bool) error {
	for c.seen = 1; ; c.seen++ {
		if c.err != nil || c.seen > 40 && c.bytes < 1<<20 && c.behind == 0 {
			// There is no more, and so the context ends.
			if c.err == nil || c.late {
				<-ctx.Done()
			}
			return cmp.Or(c.err, ctx.Err())
		}
		if !see(etcdclient.Change{Key: fmt.Appendf(nil, "/registry/pods/ns/p%d", c.seen%20), Revision: int64(c.seen), Bytes: c.bytes, Behind: c.behind * int64(c.seen)}) {
			return nil
		}
	}
}

// Without a backup store, a member is watched for hot prefixes, within bounds: it stops before it becomes the watcher that does not keep up.
func TestWatched(t *testing.T) {
	for name, c := range map[string]struct {
		member   changing
		seen     int
		withKeys bool
		keys     int
		fails    bool
	}{
		"until the time is over":   {changing{bytes: 100}, 41, false, 0, false},
		"with keys":                {changing{bytes: 100}, 41, true, 20, false},
		"until enough was sent":    {changing{bytes: 1 << 20}, 50, false, 0, false},
		"until it falls behind":    {changing{bytes: 100, behind: 101}, 10, false, 0, false},
		"until it has not begun":   {changing{err: etcdclient.ErrNotWatched, late: true}, 1, false, 0, true},
		"where it is not allowed":  {changing{err: errors.New("permission denied")}, 1, false, 0, true},
		"one value is all it sees": {changing{bytes: 60 << 20}, 1, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			report, err := watched(t.Context(), &c.member, 200*time.Millisecond, clock.RealClock{}, c.withKeys)
			g.Expect(err != nil).To(Equal(c.fails))
			g.Expect(c.member.seen).To(Equal(c.seen))
			if c.seen > 10 {
				g.Expect(report.Prefixes[0].Prefix).To(Equal("/registry/pods/…"))
			}
			g.Expect(report.Keys).To(HaveLen(c.keys))
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := watched(ctx, &changing{bytes: 100}, time.Minute, clock.RealClock{}, false)
	NewWithT(t).Expect(err).To(MatchError(context.Canceled), "the user has interrupted it")
}

// A member that is cut off would report that nothing is written: only members that serve are watched, the leader last.
func TestWatchedMembersServe(t *testing.T) {
	g := NewWithT(t)
	type member struct {
		fake
		changing
	}
	at := func(err error) *member { return &member{changing: changing{bytes: 60 << 20, err: err}} }
	off, leads, follows, unknown := at(nil), at(nil), at(errors.New("no leader")), at(nil)
	gather := func(members ...diagnose.Member) *gatherer {
		w := &gatherer{Options: Options{HotPrefixes: true, Window: time.Minute}, clock: clock.RealClock{}, etcd: &v1alpha1.Etcd{}, in: diagnose.Input{Members: members}}
		w.targets = []Target{{Name: "m-0", Etcd: off}, {Name: "m-1", Etcd: leads}, {Name: "m-2", Etcd: follows}, {Name: "m-3", Etcd: unknown}}
		w.watchPrefixes(t.Context())
		return w
	}
	got := gather(diagnose.Member{Name: "m-0"}, diagnose.Member{Name: "m-1", Serving: true, Leader: true}, diagnose.Member{Name: "m-2", Serving: true})
	g.Expect(got.in.Events).To(Equal(int64(1)))
	g.Expect([]int{off.seen, leads.seen, follows.seen, unknown.seen}).To(Equal([]int{0, 1, 1, 0}))
	got = gather(diagnose.Member{Name: "m-0"})
	g.Expect(got.in.Missing).To(ConsistOf(And(HaveField("Signal", diagnose.SignalPrefixes), HaveField("Why", ContainSubstring("no member serves")))))
	g.Expect(off.seen).To(BeZero())
}

// How old a line is shows by the clock of the member's node: the user's may differ.
func TestLinesAreDatedByTheMembersClock(t *testing.T) {
	for name, c := range map[string]struct {
		differs, other time.Duration
		dead, silent   bool
		counted        int
	}{
		"the user's clock is right":                    {counted: 1},
		"the user's clock is an hour ahead":            {differs: -time.Hour, counted: 1},
		"the user's clock is an hour behind":           {differs: time.Hour, counted: 1},
		"the clock of another node differs":            {other: time.Hour, counted: 1},
		"a member that is down, and another's time":    {differs: -time.Hour, other: -time.Hour, dead: true, counted: 1},
		"no member says what time it is, and it shows": {differs: -time.Hour, dead: true, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			serve := func(ahead time.Duration, silent bool) Target {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat)); silent {
						w.WriteHeader(http.StatusServiceUnavailable)
					}
				}))
				t.Cleanup(s.Close)
				return Target{HTTP: s.Client(), Metrics: s.URL + "/metrics"}
			}
			logs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				now := time.Now().Add(c.differs)
				for _, at := range []time.Time{now.Add(-10 * time.Minute), now} {
					_, _ = fmt.Fprintf(w, `{"ts":%q,"msg":"apply request took too long"}`+"\n", at.Format(time.RFC3339Nano))
				}
			}))
			defer logs.Close()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-0", Namespace: "demo", Labels: map[string]string{v1alpha1.LabelPartOf: "main"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd}}}}
			cluster := &kube.Cluster{WithWatch: fakeclient.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(pod).Build(), Config: &rest.Config{Host: logs.URL}}
			of, other := serve(c.differs, c.dead), serve(c.other, c.silent)
			of.Name, other.Name = "m-0", "m-1"
			gather := &gatherer{
				Options: Options{Logs: true, Window: 50 * time.Millisecond}, cluster: cluster, clock: clock.RealClock{}, targets: []Target{other, of},
				etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo"}}, pods: map[string]*corev1.Pod{"m-0": pod},
				in: diagnose.Input{Quorum: &diagnose.Quorum{}, Members: []diagnose.Member{{Name: "m-0"}}},
			}
			in := gather.measure(t.Context())
			g.Expect(in.Members[0].Logs).NotTo(BeNil(), "%v", in.Missing)
			g.Expect(in.Members[0].Logs.Lines).To(Equal(2))
			g.Expect(in.Members[0].Logs.SlowApply).To(Equal(c.counted))
			told := ContainElement(HaveField("Why", ContainSubstring("judged by the clock of this machine")))
			if c.counted == 0 {
				g.Expect(in.Missing).To(told)
			} else {
				g.Expect(in.Missing).NotTo(told)
			}
		})
	}
}

// However long a log is, its newest lines count: a kubelet with a limit writes the oldest ones, and then ends.
func TestTheNewestLinesOfALongLogCount(t *testing.T) {
	g := NewWithT(t)
	noise := []byte(strings.Repeat(`{"level":"warn","ts":"2026-11-24T12:00:00Z","msg":"apply request took too long"}`+"\n", 100_000))
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log := fmt.Appendf(slices.Clip(noise), `{"ts":%q,"msg":"failed to write","error":"no space left on device"}`+"\n", time.Now().Format(time.RFC3339Nano))
		if limit, err := strconv.Atoi(r.URL.Query().Get("limitBytes")); err == nil {
			log = log[:min(limit, len(log))]
		}
		_, _ = w.Write(log)
	}))
	defer kubelet.Close()
	w := &gatherer{Options: Options{Logs: true}, cluster: &kube.Cluster{Config: &rest.Config{Host: kubelet.URL}}, clock: clock.RealClock{}, began: time.Now()}
	got := w.readLogs(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-0", Namespace: "demo"}}, 0)
	g.Expect(got).NotTo(BeNil(), "%v", w.in.Missing)
	g.Expect(got.Lines).To(Equal(100_001))
	g.Expect(got.NoSpace).To(Equal(1))
}

// A log that breaks off has not been read.
func TestALogThatBreaksOff(t *testing.T) {
	g := NewWithT(t)
	kubelet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("a line\n"))
	}))
	defer kubelet.Close()
	w := &gatherer{Options: Options{Logs: true}, cluster: &kube.Cluster{Config: &rest.Config{Host: kubelet.URL}}, clock: clock.RealClock{}, began: time.Now()}
	g.Expect(w.readLogs(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "m-0", Namespace: "demo"}}, 0)).To(BeNil())
	g.Expect(w.in.Missing).To(ConsistOf(And(HaveField("Signal", diagnose.SignalLogs), HaveField("Member", "m-0"))))
}

// A member that refuses our certificate, or whose certificate we refuse, is neither slow nor down: it was not asked.
func TestMembersThatDistrust(t *testing.T) {
	member := httptest.NewUnstartedServer(http.NotFoundHandler())
	member.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	member.EnableHTTP2, member.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	member.StartTLS()
	t.Cleanup(member.Close)
	agent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(agent.Close)
	known := member.Client().Transport.(*http.Transport).TLSClientConfig
	for name, c := range map[string]struct {
		config *tls.Config
		ping   string
		dialer etcdclient.Dialer
	}{
		"it refuses ours": {known, member.URL, etcdclient.NewDialer()},
		"it refuses ours, and metrics take no certificate": {known, agent.URL, etcdclient.NewDialer()},
		"it has closed the connection before a read":       {known, agent.URL, etcdclient.NewDialerThrough(machine.DialLate)},
		"its own is unknown":                               {&tls.Config{MinVersion: tls.VersionTLS13}, member.URL, etcdclient.NewDialer()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dialed, err := c.dialer.Dial(member.URL, c.config.Clone())
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = dialed.Close() }()
			got := Measure(t.Context(), []Target{{
				Name: "m-0", Etcd: dialed, HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: c.config.Clone()}}, Ping: c.ping + "/no-such-path",
				AgentHTTP: agent.Client(), AgentPing: agent.URL + "/no-such-path",
			}}, machine.Scaled(500*time.Millisecond), clock.RealClock{})
			g.Expect(got[0].AgentPings).NotTo(BeEmpty())
			g.Expect(got[0].Missing).To(ContainElement(And(HaveField("Signal", diagnose.SignalReads), HaveField("Why", ContainSubstring("certificates were refused")))))
			got[0].Serving = true
			v := diagnose.Judge(diagnose.Input{Window: time.Second, Members: []diagnose.Member{got[0].Member}, Quorum: &diagnose.Quorum{Voters: 1, Serving: 1, Size: 1}})
			g.Expect(v.Findings).To(BeEmpty())
			g.Expect(v.Symptoms).To(BeEmpty())
		})
	}
}

// A member that refuses our certificate may have closed the connection before a request is written.
func TestARefusalIsReportedIfTheConnectionIsClosedBeforeAPing(t *testing.T) {
	g := NewWithT(t)
	member := httptest.NewUnstartedServer(http.NotFoundHandler())
	member.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	member.Config.ErrorLog = log.New(io.Discard, "", 0)
	member.StartTLS()
	defer member.Close()
	transport := transportThrough(machine.DialLate, member.Client().Transport.(*http.Transport).TLSClientConfig)
	err := ping(&http.Client{Transport: transport}, member.URL)(t.Context())
	g.Expect(isUntrusted(err)).To(BeTrue(), "%v", err)
}

// A page of metrics that is too long is not read in part: a number that is cut is another one.
func TestMetricsThatAreTooLong(t *testing.T) {
	g := NewWithT(t)
	line := []byte("# " + strings.Repeat("x", 1<<20) + "\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, scrapeText, 1)
		for range maxScrape >> 20 {
			_, _ = w.Write(line)
		}
	}))
	defer server.Close()
	got := Measure(t.Context(), []Target{{Name: "m-0", HTTP: server.Client(), Metrics: server.URL}}, 10*time.Millisecond, clock.RealClock{})
	g.Expect(got[0].First.Metrics).To(BeEmpty())
	g.Expect(got[0].Missing).To(ConsistOf(HaveField("Why", "the answer is longer than 16MiB")))
}

// What an agent tells is bounded and plain, and its numbers are numbers: anyone between may have written it.
func TestWhatAgentsTell(t *testing.T) {
	g := NewWithT(t)
	w := &gatherer{}
	evil := hotprefix.Prefix{Prefix: "/a\x1b[2J\r\n\u202e" + strings.Repeat("x", 1<<20), Events: math.MaxInt64, Bytes: -5}
	w.tell(hotprefix.Report{Events: 3, Prefixes: slices.Repeat([]hotprefix.Prefix{evil}, 1000), Keys: []hotprefix.Prefix{evil, {Prefix: "k", Events: -1}}})
	g.Expect(w.in.HotPrefixes).To(HaveLen(maxPrefixes))
	g.Expect(len(w.in.HotPrefixes[0].Prefix)).To(BeNumerically("<=", maxPrefix))
	g.Expect(w.in.HotKeys[0].Prefix).NotTo(ContainSubstring("\x1b"))
	page := strings.Join(lines(w.in, diagnose.Judge(w.in), 0), "\n")
	g.Expect(page).To(And(MatchRegexp(`100% +0B`), MatchRegexp(`k +0 +0% `), Not(ContainSubstring("-"+"1"))))
	raw, err := json.Marshal(newDocument(w.in, diagnose.Judge(w.in)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(raw)).NotTo(ContainSubstring("u001b"))
}

// An empty table does not say why it is empty.
func TestNothingWasWritten(t *testing.T) {
	g := NewWithT(t)
	in := diagnose.Input{Counted: &diagnose.Counted{Member: "m-1", Watched: true}, Members: []diagnose.Member{{Name: "m-1"}}}
	g.Expect(lines(in, diagnose.Judge(in), 0)).To(ContainElements("HOT PREFIXES", "Nothing was written, by the watch on m-1."))
	in.Members[0].FailedReads = 3
	page := strings.Join(lines(in, diagnose.Judge(in), 0), "\n")
	g.Expect(page).To(And(Not(ContainSubstring("HOT PREFIXES")), ContainSubstring("hot prefixes: the watch on m-1 gave nothing: the member did not answer 3 reads in time.")))
}

// However a user interrupts, no Job is left: not while it is created either.
func TestInterruptedWhileTheJobIsCreated(t *testing.T) {
	for name, first := range map[string]bool{"before": true, "while": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, interrupt := context.WithCancel(t.Context())
			created := 0
			cluster := fakeclient.NewClientBuilder().WithScheme(kube.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
					interrupt()
					created++
					o.SetCreationTimestamp(metav1.Now())
					// It exists, whether the answer arrives or not.
					return errors.Join(c.Create(ctx, o, options...), ctx.Err())
				},
			}).Build()
			w := &gatherer{
				Options: Options{LargePrefixes: true, Suffix: "x"}, cluster: &kube.Cluster{WithWatch: cluster}, clock: clock.RealClock{},
				etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "demo", UID: "uid"}, Spec: v1alpha1.EtcdSpec{
					Backup: &v1alpha1.BackupSpec{Image: ptr.To("x/agent"), Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "claim"}},
				}},
			}
			if first {
				interrupt()
			}
			w.readAtRest(ctx)
			g.Expect(created).To(Equal(map[bool]int{true: 0, false: 1}[first]), "%v", w.in.Missing)
			jobs := &batchv1.JobList{}
			g.Expect(cluster.List(t.Context(), jobs)).To(Succeed())
			g.Expect(jobs.Items).To(BeEmpty())
			g.Expect(w.in.Missing).To(ConsistOf(And(HaveField("Signal", diagnose.SignalAtRest), HaveField("Why", "interrupted"))))
		})
	}
}

// A member that stands still is not waited for: another one is watched in the time that is left.
func TestAWatchThatDoesNotBegin(t *testing.T) {
	g := NewWithT(t)
	type member struct {
		fake
		changing
	}
	frozen, other := &member{changing: changing{err: fmt.Errorf("watching x: %w", etcdclient.ErrNotWatched)}}, &member{changing: changing{bytes: 60 << 20}}
	w := &gatherer{
		Options: Options{HotPrefixes: true, Window: time.Minute}, clock: clock.RealClock{}, etcd: &v1alpha1.Etcd{}, targets: []Target{{Name: "m-0", Etcd: frozen}, {Name: "m-1", Etcd: other}},
		in: diagnose.Input{Members: []diagnose.Member{{Name: "m-0", Serving: true}, {Name: "m-1", Serving: true, Leader: true}}},
	}
	w.watchPrefixes(t.Context())
	g.Expect(w.in.Counted).To(Equal(&diagnose.Counted{Member: "m-1", Watched: true}))
	g.Expect(w.in.Missing).To(BeEmpty())

	w.in.Counted, w.targets = nil, w.targets[:1]
	w.watchPrefixes(t.Context())
	g.Expect(w.in.Counted).To(BeNil())
	g.Expect(w.in.Missing).To(ConsistOf(HaveField("Why", ContainSubstring("did not begin to watch in time"))))
}
