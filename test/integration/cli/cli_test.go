// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Each verb creates a task that the API server accepts.
func TestEveryVerbCreatesItsTask(t *testing.T) {
	p := newPerson(t)
	for _, c := range []struct {
		args     string
		taskType v1alpha1.TaskType
		config   string
	}{
		{"rollout main", v1alpha1.QuorumAwareRollout, ""},
		{"rollout main --pod-removal Evict --leader-handover=false --progress-deadline 5m", v1alpha1.QuorumAwareRollout, "leaderHandover: false\npodRemoval: Evict\nprogressDeadline: 5m0s\n"},
		{"restart main", v1alpha1.QuorumAwareRollout, "restart: true\n"},
		{"snapshot main", v1alpha1.OnDemandSnapshot, "type: full\n"},
		{"snapshot main --type full --final --task-timeout 10m", v1alpha1.OnDemandSnapshot, "isFinal: true\ntimeout: 10m0s\ntype: full\n"},
		{"compact main", v1alpha1.OnDemandCompaction, ""},
		{"defrag main --compaction", v1alpha1.OnDemandMaintenance, "etcdCompaction: true\netcdDefragmentation: true\n"},
		{
			"copy-backups main --source-provider S3 --source-container a --source-secret s --source-endpoint https://e --target-provider Local --target-container b --target-prefix c --max-backups 2",
			v1alpha1.CopyBackups, "maxBackups: 2\nsourceStore:\n  container: a\n  endpointOverride: https://e\n  provider: S3\n  secretRef:\n    name: s\ntargetStore:\n  container: b\n  prefix: c\n  provider: Local\n",
		},
		{"recover main", v1alpha1.QuorumLossRecovery, ""},
		{"restore main --to revision=7", v1alpha1.Restore, "to:\n  revision: 7\n"},
		{"recreate main --target-revision main-1", v1alpha1.RecreateRollout, "targetRevision: main-1\n"},
	} {
		args := append(strings.Fields(c.args), "--name", "task")
		got := p.run(args...)
		p.Expect(got.code).To(BeZero(), "%s: %s", c.args, got)
		p.Expect(got.out).To(Equal("etcdoperatortask.druid.gardener.cloud/task created\n"), c.args)
		task := p.task("task")
		p.Expect(task.Spec.Type).To(Equal(c.taskType), c.args)
		p.Expect(task.Spec.Config).To(Equal(c.config), c.args)
		p.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
	}
}

func TestOutputAndDryRun(t *testing.T) {
	p := newPerson(t)
	got := p.run("restart", "main", "--dry-run=client", "-o", "yaml", "--suspend", "--override-guards", "UnreadyConfirmed", "--ttl", "60")
	p.Expect(got.code).To(BeZero(), got.String())
	for _, want := range []string{"name: main-restart-x7k2p\n", "suspend: true\n", "- UnreadyConfirmed\n", "ttlSecondsAfterFinished: 60\n"} {
		p.Expect(got.out).To(ContainSubstring(want))
	}
	p.Expect(p.run("restart", "main", "--dry-run=server").out).To(Equal("etcdoperatortask.druid.gardener.cloud/main-restart-x7k2p created (server dry run)\n"))
	p.Expect(p.run("restart", "etcd/main", "--dry-run=client", "-o", "name").out).To(Equal("etcdoperatortask.druid.gardener.cloud/main-restart-x7k2p\n"))
	p.Expect(p.run("restart", "main", "--dry-run=client", "--ttl", "24h", "-o", "yaml").out).To(ContainSubstring("ttlSecondsAfterFinished: 86400\n"))
	p.Expect(p.Tasks(p)).To(BeEmpty(), "a dry run creates no task")

	p.Expect(p.run("restart", "main", "-o", "name").out).To(Equal("etcdoperatortask.druid.gardener.cloud/main-restart-x7k2p\n"))
	p.Expect(p.run("restart", "main", "-o", "jsonpath={.metadata.name}", "--name", "b").out).To(Equal("b"))
}

func TestWait(t *testing.T) {
	for state, code := range map[v1alpha1.TaskState]int{v1alpha1.TaskStateSucceeded: 0, v1alpha1.TaskStateFailed: 1, v1alpha1.TaskStateRejected: 1} {
		p := newPerson(t)
		end := p.start(t.Context(), "restart", "main", "--wait", "--timeout", "1m")
		task := p.task("main-restart-x7k2p")
		p.operate(task, v1alpha1.TaskStateInProgress, "main-2 is a follower")
		p.operate(task, state, "that was it")
		got := end()
		p.Expect(got.code).To(Equal(code), got.String())
		p.Expect(got.out).To(Equal("etcdoperatortask.druid.gardener.cloud/main-restart-x7k2p created\n"))
		p.Expect(got.err).To(ContainSubstring("task main-restart-x7k2p " + strings.ToLower(string(state))))
		p.Expect(got.err).To(ContainSubstring("that was it"))
	}
}

func TestWaitPrintsTheTaskAsItEnded(t *testing.T) {
	p := newPerson(t)
	end := p.start(t.Context(), "restart", "main", "--wait", "-o", "json")
	p.operate(p.task("main-restart-x7k2p"), v1alpha1.TaskStateSucceeded, "done")
	var task v1alpha1.EtcdOperatorTask
	p.Expect(json.Unmarshal([]byte(end().out), &task)).To(Succeed())
	p.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
}

func TestWaitEndsBeforeTheTask(t *testing.T) {
	p := newPerson(t)
	p.observed(metav1.ConditionTrue)
	got := p.run("restart", "main", "--wait", "--timeout", "100ms")
	p.Expect(got.code).To(Equal(3), got.String())
	p.Expect(got.err).To(ContainSubstring("continues"))
	got = p.run("watch", "main", "--timeout", "100ms")
	p.Expect(got.code).To(Equal(3), got.String())

	ctx, interrupt := context.WithCancel(t.Context())
	end := p.start(ctx, "watch", "main")
	interrupt()
	got = end()
	p.Expect(got.code).To(Equal(1), got.String())

	end = p.start(t.Context(), "watch", "main")
	p.Expect(testEnv.Client.Delete(t.Context(), p.task("main-restart-x7k2p"))).To(Succeed())
	got = end()
	p.Expect(got.code).To(Equal(1), got.String())
	p.Expect(got.err).To(Or(ContainSubstring("was deleted"), ContainSubstring("has no task")))
}

func TestWatchPrintsLinesUntilTheEnd(t *testing.T) {
	p := newPerson(t)
	p.observed(metav1.ConditionTrue)
	task := p.make("a", v1alpha1.TaskStateInProgress)
	end := p.start(t.Context(), "watch", "main")
	p.operate(task, v1alpha1.TaskStateSucceeded, "all is well")
	got := end()
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(MatchRegexp(`(?s)^\d\d:\d\d:\d\d created\n.*succeeded: all is well\n$`))
}

func TestListAndDescribe(t *testing.T) {
	p := newPerson(t)
	p.Expect(p.run("list").err).To(Equal("No tasks in namespace " + p.Namespace + ".\n"))
	p.make("a", v1alpha1.TaskStateInProgress)
	p.make("b", "")
	got := p.run("list")
	p.Expect(got.out).To(MatchRegexp(`(?m)^a +QuorumAwareRollout +main +InProgress +- +- +1 +\d+s$`))
	p.Expect(got.out).To(MatchRegexp(`(?m)^b +QuorumAwareRollout +main +Pending +- +- +2 +\d+s$`))
	p.Expect(p.run("list", "-A").out).To(ContainSubstring(p.Namespace))
	p.Expect(p.run("list", "main", "-o", "name").out).To(Equal("etcdoperatortask.druid.gardener.cloud/a\netcdoperatortask.druid.gardener.cloud/b\n"))
	var list v1alpha1.EtcdOperatorTaskList
	p.Expect(json.Unmarshal([]byte(p.run("list", "-o", "json").out), &list)).To(Succeed())
	p.Expect(list.Items).To(HaveLen(2))

	p.Expect(p.run("describe", "main").out).To(ContainSubstring("Task:       " + p.Namespace + "/a\n"))
	p.Expect(p.run("describe", "b").out).To(And(ContainSubstring("Queue:      2 of 2"), ContainSubstring("created")))
}

func TestOverride(t *testing.T) {
	p := newPerson(t)
	p.make("a", v1alpha1.TaskStateInProgress)
	for range 2 {
		got := p.run("override", "etcdoperatortask/a", "NodesStable", "--dry-run=server")
		p.Expect(got.code).To(BeZero(), got.String())
		p.Expect(got.out).To(ContainSubstring("overrides NodesStable (server dry run)"))
	}
	p.Expect(p.task("a").Spec.OverrideGuards).To(BeEmpty())
	for range 2 {
		p.Expect(p.run("override", "a", "NodesStable").code).To(BeZero())
	}
	p.Expect(p.run("override", "a", "UnreadyConfirmed").code).To(BeZero())
	p.Expect(p.task("a").Spec.OverrideGuards).To(ConsistOf(v1alpha1.OverridableGuard("NodesStable"), v1alpha1.OverridableGuard("UnreadyConfirmed")))
	got := p.run("override", "a", "QuorumKept")
	p.Expect(got.code).To(Equal(2), got.String())
	p.Expect(p.run("describe", "a", "-o", "jsonpath={.spec.type}").out).To(Equal("QuorumAwareRollout"))
	p.observed(metav1.ConditionTrue)
	got = p.run("status")
	p.Expect(got.out).To(MatchRegexp(`(?m)^main +`), got.String())
	got = p.run("status", "main")
	p.Expect(got.out).To(ContainSubstring("a (QuorumAwareRollout): InProgress"), got.String())
	got = p.run("list", "--held")
	p.Expect(got.err).To(ContainSubstring("No tasks"), got.String())
}

// The column of kubectl get has the guard that blocks a task, of each type that has guards.
func TestColumnHeldBy(t *testing.T) {
	p := newPerson(t)
	hold := &v1alpha1.Hold{Guard: "ListKnown", Message: "because", Since: metav1.Now()}
	for name, status := range map[string]v1alpha1.EtcdOperatorTaskStatus{
		"a-rollout": {Rollout: &v1alpha1.RolloutStatus{HeldBy: hold}}, "b-members": {Membership: &v1alpha1.MembershipStatus{HeldBy: hold}}, "c-free": {Rollout: &v1alpha1.RolloutStatus{}},
	} {
		task := p.CreateTask(name, v1alpha1.QuorumAwareRollout, "")
		task.Status = status
		p.operate(task, v1alpha1.TaskStateInProgress, "as the operator says")
	}
	api, err := rest.HTTPClientFor(testEnv.Config)
	p.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(testEnv.Config.Host, "/")+"/apis/"+v1alpha1.GroupVersion.String()+"/namespaces/"+p.Namespace+"/etcdoperatortasks", nil)
	p.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := api.Do(request)
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	table := &metav1.Table{}
	p.Expect(json.NewDecoder(response.Body).Decode(table)).To(Succeed())
	column := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Held By" })
	var cells []any
	for _, row := range table.Rows {
		cells = append(cells, row.Cells[column])
	}
	p.Expect(cells).To(HaveExactElements("ListKnown", "ListKnown", BeNil()))
}

// Each type of task has its guards: those of the tasks that the operator creates are overridden as well, and the API server takes each of them.
func TestOverrideOfOtherTypes(t *testing.T) {
	p := newPerson(t)
	for _, c := range []struct {
		of      v1alpha1.TaskType
		guards  []string
		refused string
	}{
		{v1alpha1.MembershipChange, []string{"OthersServing", "BackedUp"}, "NodesStable"},
		{v1alpha1.RecreateRollout, []string{"VolumeReachable"}, "OthersServing"},
		{v1alpha1.OnDemandSnapshot, nil, "BackedUp"},
	} {
		name := strings.ToLower(string(c.of))
		p.operate(p.CreateTask(name, c.of, ""), v1alpha1.TaskStateInProgress, "as the operator says")
		if c.guards != nil {
			got := p.run(append([]string{"override", name}, c.guards...)...)
			p.Expect(got.code).To(BeZero(), got.String())
			p.Expect(p.task(name).Spec.OverrideGuards).To(HaveLen(len(c.guards)))
		}
		got := p.run("override", name, c.refused)
		p.Expect(got.code).To(Equal(2), got.String())
		p.Expect(got.err).To(ContainSubstring(string(c.of)))
	}
	p.Expect(p.run("members", "main", "--override-guards", "BackedUp", "--dry-run=server").code).To(BeZero())
	p.Expect(p.run("recreate", "main", "--override-guards", "VolumeReachable", "--dry-run=server").code).To(BeZero())
}

func TestSteer(t *testing.T) {
	p := newPerson(t)
	p.make("a", v1alpha1.TaskStateInProgress)
	p.Expect(p.run("suspend", "a", "--dry-run=server").code).To(BeZero())
	p.Expect(p.task("a").Spec.Suspend).To(BeFalse(), "a dry run changes nothing")
	p.Expect(p.run("suspend", "a").out).To(Equal("etcdoperatortask.druid.gardener.cloud/a suspended\n"))
	p.Expect(p.task("a").Spec.Suspend).To(BeTrue())
	p.Expect(p.run("resume", "a").code).To(BeZero())
	p.Expect(p.task("a").Spec.Suspend).To(BeFalse())
	p.Expect(p.run("abort", "a").out).To(Equal("etcdoperatortask.druid.gardener.cloud/a aborted\n"))
	p.Expect(p.Tasks(p)).To(BeEmpty())

	for of, says := range map[v1alpha1.TaskType]string{v1alpha1.Restore: "kubectl etcdtask restore ETCD --undo back", v1alpha1.QuorumLossRecovery: "docs/recovery.md"} {
		for source, code := range map[v1alpha1.RecoverySource]int{v1alpha1.RecoverFromBackup: 1, "": 0} {
			task := p.CreateTask("back", of, "")
			task.Status.Recovery = &v1alpha1.RecoveryStatus{Source: source, Phase: v1alpha1.RecoveryStarting, PhaseSince: metav1.Now()}
			p.operate(task, v1alpha1.TaskStateInProgress, "as the operator says")
			got := p.run("abort", "back")
			p.Expect(got.code).To(Equal(code), got.String())
			if code > 0 {
				p.Expect(got.err).To(And(ContainSubstring("deleting the task does not stop that"), ContainSubstring(says), ContainSubstring("kubectl delete etcdtask back -n "+p.Namespace)))
				p.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
			}
			p.Expect(p.Tasks(p)).To(BeEmpty())
		}
	}

	p.make("b", v1alpha1.TaskStateSucceeded)
	got := p.run("abort", "b")
	p.Expect(got.code).To(Equal(1))
	p.Expect(got.err).To(ContainSubstring("task b succeeded"), "a finished task is not aborted")
	p.Expect(p.run("abort", "main").err).To(ContainSubstring(`there is no task "main"`), "an Etcd is not aborted")
}

// Every error is one sentence, with the right exit code.
func TestErrorIsOneSentence(t *testing.T) {
	p := newPerson(t)
	unresponsive, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = unresponsive.Close() }()
	p.allow("reader", "get", "list", "watch")
	reader, unprivileged, undecided := p.impersonating("reader"), p.impersonating("unprivileged"), p.writeKubeconfig(testEnv.Config, "")
	closed := "http://127.0.0.1:1"
	foreign := httptest.NewUnstartedServer(http.NotFoundHandler())
	foreign.Config.ErrorLog = log.New(io.Discard, "", 0)
	foreign.StartTLS()
	defer foreign.Close()
	plaintext := httptest.NewServer(http.NotFoundHandler())
	defer plaintext.Close()
	for _, c := range []struct {
		args string
		code int
		say  string
	}{
		{"plan other", 1, `there is no Etcd "other" in namespace ` + p.Namespace},
		{"restart other", 1, `there is no Etcd "other"`},
		{"list other", 1, `there is no Etcd "other"`},
		{"describe other", 1, `there is no task and no Etcd "other"`},
		{"watch etcdoperatortask/main", 1, `there is no task "main"`},
		{"watch pod/main", 2, "neither an Etcd nor a task"},
		{"suspend etcd/main", 2, "is not a task"},
		{"plan task/main", 2, "neither an Etcd nor a task"},
		{"suspend other", 1, `there is no task and no Etcd "other"`},
		{"restart main --kubeconfig " + unprivileged, 1, "not permitted: "},
		{"restart main --kubeconfig " + reader, 1, "not permitted: "},
		{"list --kubeconfig " + unprivileged, 1, "not permitted: "},
		{"list --kubeconfig /nowhere", 2, "/nowhere"},
		{"list --kubeconfig " + undecided, 2, `choose one of "other", "test" with --context`},
		{"list --context third", 2, `no context "third": it has "other", "test"`},
		{"list --context test --context other", 2, "it is already set to test"},
		{"list -s " + closed, 1, "the API server at " + closed + " does not answer: "},
		{"list -s http://" + unresponsive.Addr().String() + " --request-timeout 200ms", 1, "does not answer"},
		{"list -s " + foreign.URL, 1, "the TLS connection to the API server at " + foreign.URL + " failed: "},
		{"list -s " + strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1), 1, "the TLS connection to the API server at "},
		{"list -s " + strings.Replace(plaintext.URL, "http", "https", 1), 1, "the TLS connection to the API server at "},
		{"list -o nonsense", 2, `"nonsense"`},
		{"plan main -o wide", 2, "json or yaml"},
		{"plan", 2, `kubectl etcdtask plan ETCD`},
		{"plan a b", 2, `kubectl etcdtask plan ETCD`},
		{"fleet resume", 2, `kubectl etcdtask fleet resume CHANGE`},
		{"fleet nosuch", 1, `there is no EtcdFleetPolicy "nosuch"; "kubectl etcdtask fleet" shows all`},
		{"fleet resume v1-0", 1, `no EtcdFleetPolicy has paused change "v1-0"; "kubectl etcdtask fleet" shows which`},
		{"timeline main --change v1-0", 2, "--change is about all Etcds, and goes without a TASK or an ETCD"},
		{"restore main --to latest --undo r1", 2, "--to and --undo exclude each other"},
		{"restorable main", 1, `Etcd "main" in namespace ` + p.Namespace + " has no backup"},
		{"rolout main", 2, `did you mean "rollout"?`},
		{"rollout main --nonsense", 2, "unknown flag: --nonsense"},
		{"rollout main --pod-removal Drop", 2, "podRemoval"},
		{"restart main --timeout 1s", 2, "--timeout goes with --wait"},
		{"restart main --wait --dry-run=client", 2, "exclude each other"},
		{"restart main --dry-run", 2, "client or server"},
		{"restart main --wait --timeout soon", 2, "--timeout"},
		{"restart main --name Not_A_Name", 2, `--name is "Not_A_Name"`},
		{"restart etcd/a/b --dry-run=client", 2, `"a/b" is not a name`},
		{"restart pod/main --dry-run=client", 2, "neither an Etcd nor a task"},
		{"restart main --dry-run=client --override-guards QuorumKept", 2, `guard "QuorumKept" cannot be overridden`},
		{"restart main --dry-run=client --ttl soon", 2, "it must be a duration such as 24h, or a number of seconds"},
		{"snapshot main --type half", 2, "full or delta"},
		{"copy-backups main", 2, "--source-provider and --source-container are required"},
	} {
		args := strings.Fields(c.args)
		if !strings.Contains(c.args, "--kubeconfig") {
			args = append(args, "--kubeconfig", p.kubeconfig)
		}
		kubeconfig := p.kubeconfig
		p.kubeconfig = args[len(args)-1]
		got := p.run(args[:len(args)-2]...)
		p.kubeconfig = kubeconfig
		p.Expect(got.code).To(Equal(c.code), "%s: %s", c.args, got)
		p.Expect(got.err).To(ContainSubstring(c.say), c.args)
		p.Expect(got.err).To(MatchRegexp(`^error: [^\n]+\n$`), "%s: one line", c.args)
		p.Expect(got.out).To(BeEmpty(), c.args)
	}
	p.Expect(p.Tasks(p)).To(BeEmpty())
}

// allow allows a user some verbs on the project's resources.
func (p *person) allow(user string, verbs ...string) {
	p.T.Helper()
	p.allowRules(user, user, []string{v1alpha1.GroupVersion.Group}, verbs...)
}

func (p *person) allowRules(role, user string, groups []string, verbs ...string) {
	p.T.Helper()
	p.Expect(testEnv.Client.Create(p.T.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: role},
		Rules:      []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: verbs}},
	})).To(Succeed())
	p.Expect(testEnv.Client.Create(p.T.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})).To(Succeed())
	// The API server takes note of it a moment later.
	p.Eventually(func(g Gomega) {
		for _, group := range groups {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: p.Namespace, Verb: verbs[0], Group: group, Resource: "any",
			}}}
			g.Expect(testEnv.Client.Create(p.T.Context(), review)).To(Succeed())
			g.Expect(review.Status.Allowed).To(BeTrue(), "%s %s", user, group)
		}
	}).Should(Succeed())
}

// A user who may create tasks but not read Etcds can create tasks.
func TestCreatingTasksNeedsNoOtherPermission(t *testing.T) {
	p := newPerson(t)
	p.allow("maker", "create", "create:QuorumAwareRollout")
	p.kubeconfig = p.impersonating("maker")
	p.Eventually(func(g Gomega) {
		got := p.run("restart", "main")
		g.Expect(got.code).To(BeZero(), got.String())
	}).Should(Succeed())
}

// A cluster without the CRDs says so.
func TestWithoutCRDs(t *testing.T) {
	p := newPerson(t)
	bare := &envtest.Environment{BinaryAssetsDirectory: testEnv.Assets(), ControlPlaneStartTimeout: machine.Patience()}
	config, err := bare.Start()
	p.Expect(err).NotTo(HaveOccurred())
	defer func() { p.Expect(bare.Stop()).To(Succeed()) }()
	p.kubeconfig = p.writeKubeconfig(config, "test")
	for _, verb := range []string{"list", "plan main", "restart main", "describe main", "abort a"} {
		got := p.run(strings.Fields(verb)...)
		p.Expect(got.code).To(Equal(1), got.String())
		p.Expect(got.err).To(HavePrefix("error: the cluster does not know Etcds and EtcdOperatorTasks: install the CRDs"), verb)
	}
	p.Expect(p.run("fleet").err).To(HavePrefix("error: the API server has no EtcdFleetPolicies: install config/crd/fleet"))
}
