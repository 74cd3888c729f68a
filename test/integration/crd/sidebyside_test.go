// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package crd tests the project's CustomResourceDefinitions beside, and against, those of etcd-druid, which serves the same API
// group. Facts about the latter are in testdata.
package crd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/druid"
	"github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

var (
	// testEnv is that of the test that is running.
	testEnv *env.Env
	// built are the programs of all.
	built env.Programs
)

func TestMain(m *testing.M) {
	// Log has the output of each test.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code := m.Run()
	if err := built.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	group = "druid.gardener.cloud"
	root  = "../../.."
)

// stock are the CustomResourceDefinitions of etcd-druid.
func stock(t testing.TB) []*unstructured.Unstructured {
	var crds []*unstructured.Unstructured
	for _, plural := range []string{"etcds", "etcdcopybackupstasks", "etcdopstasks"} {
		crds = append(crds, upstream(t, plural).crd())
	}
	return crds
}

// own are the project's CustomResourceDefinitions in a component of config/crd.
func own(t testing.TB, component string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config/crd", component, group+"_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CustomResourceDefinition in config/crd/%s: %v", component, err)
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds = append(crds, crd)
	}
	return crds
}

// install installs CustomResourceDefinitions one after the other, in an API server of the test's own, and waits until all are
// served under all their names. An API server may take minutes to remove one of which it has just begun to serve the type.
func install(t *testing.T, g *WithT, crds ...*unstructured.Unstructured) {
	t.Helper()
	installWith(t, g, nil, crds...)
}

// installWith is install in an API server with options.
func installWith(t *testing.T, g *WithT, options []env.Option, crds ...*unstructured.Unstructured) {
	t.Helper()
	own, err := env.Start(append(options, env.WithoutCRDs(), env.WithPrograms(&built))...)
	g.Expect(err).NotTo(HaveOccurred())
	testEnv = own
	t.Cleanup(func() { g.Expect(own.Stop()).To(Succeed()) })
	for _, crd := range crds {
		g.Expect(testEnv.Client.Create(t.Context(), crd)).To(Succeed(), crd.GetName())
		g.Eventually(func(g Gomega) {
			now := crd.DeepCopy()
			g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), now)).To(Succeed())
			g.Expect(conditionsOf(now)).To(And(HaveKeyWithValue("NamesAccepted", "True"), HaveKeyWithValue("Established", "True")), crd.GetName())
		}).WithTimeout(machine.Patience()).Should(Succeed())
	}
	// The operator waits 15 s for what is published after that.
	published := discovery.NewDiscoveryClientForConfigOrDie(testEnv.Config).OpenAPIV3()
	g.Eventually(func(g Gomega) {
		document, err := openapi3.NewRoot(published).GVSpecAsMap(v1alpha1.GroupVersion)
		g.Expect(err).NotTo(HaveOccurred())
		components, _ := document["components"].(map[string]any)
		for _, crd := range crds {
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			g.Expect(components["schemas"]).To(HaveKey(HaveSuffix("." + kind)))
		}
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// conditionsOf are the conditions of a CustomResourceDefinition, with the message of those that are not True.
func conditionsOf(crd *unstructured.Unstructured) map[string]string {
	list, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	conditions := map[string]string{}
	for _, c := range list {
		c, _ := c.(map[string]any)
		conditions[fmt.Sprint(c["type"])] = fmt.Sprint(c["status"])
		if c["status"] != "True" {
			conditions[fmt.Sprint(c["type"])] += fmt.Sprint(": ", c["message"])
		}
	}
	return conditions
}

// What is asked of the definitions of etcd-druid, beside that of tasks, which is installed last.
func TestUnderTheDefinitionsOfEtcdDruid(t *testing.T) {
	install(t, NewWithT(t), append(stock(t), own(t, "task")...)...)
	t.Run("both are established", bothAreEstablished)
	t.Run("joins in progress", func(t *testing.T) { joinsInProgress(t, "etcd-druid") })
	t.Run("decisions", func(t *testing.T) { decide(t, "etcd-druid") })
	t.Run("the engine runs", theEngineRuns)
	t.Run("the operator refuses", theOperatorRefuses)
}

// What is asked of the project's definitions of the types that etcd-druid has as well.
func TestUnderTheDefinitionsOfEtcdForeman(t *testing.T) {
	var ours []*unstructured.Unstructured
	for _, component := range []string{"etcd", "copybackupstask", "opstask"} {
		ours = append(ours, own(t, component)...)
	}
	install(t, NewWithT(t), ours...)
	t.Run("joins in progress", func(t *testing.T) { joinsInProgress(t, "etcd-foreman") })
	t.Run("decisions", func(t *testing.T) { decide(t, "etcd-foreman") })
	t.Run("Etcds of Gardener", gardenersEtcds)
}

// Tasks are served beside a stock etcd-druid, whichever was installed first.
func TestTasksAreInstalledFirst(t *testing.T) {
	install(t, NewWithT(t), append(own(t, "task"), stock(t)...)...)
	bothAreEstablished(t)
}

func bothAreEstablished(t *testing.T) {
	g := NewWithT(t)
	discovered := discovery.NewDiscoveryClientForConfigOrDie(testEnv.Config)
	g.Eventually(func(g Gomega) {
		resources, err := discovered.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		g.Expect(err).NotTo(HaveOccurred())
		short := map[string]string{}
		for _, r := range resources.APIResources {
			for _, name := range r.ShortNames {
				short[name] = r.Name
			}
		}
		g.Expect(short).To(Equal(map[string]string{"eot": "etcdopstasks", "etcdtask": "etcdoperatortasks"}))
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// The task engine runs tasks beside the Etcds of a stock etcd-druid: it needs no field of the project's own Etcd.
func theEngineRuns(t *testing.T) {
	g := NewWithT(t)
	c := testEnv.NewCluster(t, "etcd-main")
	etcd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindEtcd,
		"metadata": map[string]any{"namespace": c.Namespace, "name": c.Name},
		"spec": map[string]any{
			"replicas": int64(1), "labels": map[string]any{"app": "etcd"}, "selector": map[string]any{"matchLabels": map[string]any{"app": "etcd"}},
			"etcd": map[string]any{}, "backup": map[string]any{}, "runAsRoot": true,
		},
	}}
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	c.Start([]operator.Controller{operator.Tasks})
	c.CreateTask("snapshot", v1alpha1.OnDemandSnapshot, "type: full")
	rejected := c.UntilTask("snapshot", v1alpha1.TaskStateRejected)
	g.Expect(rejected.Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrNoBackup)))
}

// The operator does not start under a CustomResourceDefinition that cannot hold its status, says why in one line, and leaves the
// definition as it is.
func theOperatorRefuses(t *testing.T) {
	g := NewWithT(t)
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(stock(t)[0].GroupVersionKind())
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Name: "etcds." + group}, before)).To(Succeed())
	cmd := testEnv.Operator(t, quiet)
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Run()).NotTo(Succeed(), "%s", log)
	g.Expect(log.String()).To(And(HavePrefix("etcd-foreman: the CustomResourceDefinition etcds."+group+" lacks "),
		ContainSubstring("status.clusterID"), ContainSubstring("status.recovery"), HaveSuffix("install config/crd/etcd, or remove this operator\n")))
	after := before.DeepCopy()
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(before), after)).To(Succeed())
	g.Expect(after).To(Equal(before))
}

// without returns a CustomResourceDefinition as one of an earlier version that lacks a field of the schema.
func without(crd *unstructured.Unstructured, path ...string) *unstructured.Unstructured {
	crd = crd.DeepCopy()
	version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for i, name := range path {
		if items, ok := schema["items"].(map[string]any); ok {
			schema = items
		}
		properties := schema["properties"].(map[string]any)
		if i == len(path)-1 {
			delete(properties, name)
			return crd
		}
		schema = properties[name].(map[string]any)
	}
	return crd
}

const quiet = `leaderElection: {namespace: etcd-foreman-system}
server: {metricsBindAddress: "0", healthBindAddress: "0"}
`

// start starts the operator, and returns its log, which is complete once it has ended, and how it ends.
func start(t *testing.T, g *WithT, config string) (*bytes.Buffer, <-chan error) {
	t.Helper()
	cmd, log, ended := testEnv.Operator(t, config), &bytes.Buffer{}, make(chan error, 1)
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { ended <- cmd.Wait() }()
	return log, ended
}

// The operator does not start either where the intents of its tasks, or what a user has written into a spec, would be pruned.
func TestTheOperatorRefusesOlderDefinitions(t *testing.T) {
	for name, c := range map[string]struct {
		etcds, tasks []*unstructured.Unstructured
		config, want string
	}{
		"intents of tasks": {
			own(t, "etcd"), []*unstructured.Unstructured{without(own(t, "task")[0], "status", "rollout", "pods", "lastOperation")}, quiet,
			"etcd-foreman: the CustomResourceDefinition etcdoperatortasks." + group + " lacks status.rollout.pods.lastOperation",
		},
		"intents of tasks, beside etcd-druid": {
			stock(t)[:1], []*unstructured.Unstructured{without(own(t, "task")[0], "status", "rollout")}, "mode: Executor\n" + quiet,
			"etcd-foreman: the CustomResourceDefinition etcdoperatortasks." + group + " lacks status.rollout",
		},
		"a spec": {
			[]*unstructured.Unstructured{without(own(t, "etcd")[0], "spec", "surgePolicy")}, own(t, "task"), quiet,
			"etcd-foreman: the CustomResourceDefinition etcds." + group + " lacks spec.surgePolicy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			install(t, g, append(c.etcds, c.tasks...)...)
			log, ended := start(t, g, c.config)
			g.Eventually(ended).WithTimeout(machine.Patience()).Should(Receive(HaveOccurred()))
			g.Expect(log.String()).To(HavePrefix(c.want))
		})
	}
}

// An operator that runs ends when its definitions are replaced, by a rollback or by another operator, and says why: what it reads is pruned,
// too, so a cluster without its recovery, or without the cluster that it joins, would look like one that is done with that.
func TestTheOperatorEndsUnderAReplacedDefinition(t *testing.T) {
	g := NewWithT(t)
	installWith(t, g, []env.Option{env.WithRoles()}, append(own(t, "etcd"), own(t, "task")...)...)
	log, ended := start(t, g, quiet)
	g.Eventually(func(g Gomega) {
		lease := &coordinationv1.Lease{}
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Namespace: "etcd-foreman-system", Name: "etcd-foreman"}, lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
	}).WithTimeout(machine.Patience()).Should(Succeed())
	g.Consistently(ended, "1s").ShouldNot(Receive(), "it runs under its own")

	replaced := own(t, "etcd")[0]
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(replaced), replaced)).To(Succeed())
	replaced.Object["spec"] = stock(t)[0].Object["spec"]
	g.Expect(testEnv.Client.Update(t.Context(), replaced)).To(Succeed())
	g.Eventually(ended).WithTimeout(machine.Patience()).Should(Receive(HaveOccurred()))
	g.Expect(log.String()).To(MatchRegexp(`(?m)^etcd-foreman: running: the CustomResourceDefinition etcds.` + group + ` lacks .*status.clusterID`))
}

// A type whose definition is etcd-druid's is not served, and neither is another for that reason.
func TestTaskTypesOfAnotherOperator(t *testing.T) {
	g := NewWithT(t)
	install(t, g, append(own(t, "opstask"), upstream(t, "etcdcopybackupstasks").crd())...)
	api := discovery.NewDiscoveryClientForConfigOrDie(testEnv.Config).OpenAPIV3()
	g.Expect(druid.OpsTasks().Check(t.Context(), api)).To(Succeed())
	g.Expect(druid.CopyBackupsTasks().Check(t.Context(), api)).To(MatchError(And(
		HavePrefix("the CustomResourceDefinition etcdcopybackupstasks."+group+" lacks "),
		ContainSubstring("status.result"), HaveSuffix("install config/crd/copybackupstask, or remove this operator"))))
}
