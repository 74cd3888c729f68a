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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

// testEnv is that of the test that is running.
var testEnv *env.Env

func TestMain(m *testing.M) {
	// Log has the output of each test.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
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
	own, err := env.Start(env.WithoutCRDs())
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

// Tasks are served beside a stock etcd-druid, whichever was installed first.
func TestBothAreEstablished(t *testing.T) {
	for name, crds := range map[string][]*unstructured.Unstructured{
		"etcd-druid first":   append(stock(t), own(t, "task")...),
		"etcd-foreman first": append(own(t, "task"), stock(t)...),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			install(t, g, crds...)
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
		})
	}
}

// The task engine runs tasks beside the Etcds of a stock etcd-druid: it needs no field of the project's own Etcd.
func TestTheEngineUnderTheStockEtcd(t *testing.T) {
	g := NewWithT(t)
	install(t, g, append(stock(t), own(t, "task")...)...)
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
func TestTheOperatorRefusesTheStockEtcd(t *testing.T) {
	g := NewWithT(t)
	install(t, g, append(stock(t), own(t, "task")...)...)
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(stock(t)[0].GroupVersionKind())
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKey{Name: "etcds." + group}, before)).To(Succeed())
	cmd := testEnv.Operator(t, `leaderElection: {namespace: default}
server: {metricsBindAddress: "0", healthBindAddress: "0"}
`)
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	g.Expect(cmd.Run()).NotTo(Succeed(), "%s", log)
	g.Expect(log.String()).To(And(HavePrefix("etcd-foreman: the CustomResourceDefinition etcds."+group+" cannot hold the status of an Etcd: it lacks "),
		ContainSubstring("status.clusterID"), ContainSubstring("status.recovery"), HaveSuffix("install config/crd/etcd, or remove this operator\n")))
	after := before.DeepCopy()
	g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(before), after)).To(Succeed())
	g.Expect(after).To(Equal(before))
}

// A type whose definition is etcd-druid's is not served, and neither is another for that reason.
func TestTaskTypesOfAnotherOperator(t *testing.T) {
	g := NewWithT(t)
	install(t, g, append(own(t, "opstask"), upstream(t, "etcdcopybackupstasks").crd())...)
	api := discovery.NewDiscoveryClientForConfigOrDie(testEnv.Config).OpenAPIV3()
	g.Expect(druid.OpsTasks().Check(t.Context(), api)).To(Succeed())
	g.Expect(druid.CopyBackupsTasks().Check(t.Context(), api)).To(MatchError(And(
		HavePrefix("the CustomResourceDefinition etcdcopybackupstasks."+group+" cannot hold the status of an EtcdCopyBackupsTask: it lacks "),
		ContainSubstring("status.result"), HaveSuffix("install config/crd/copybackupstask, or remove this operator"))))
}
