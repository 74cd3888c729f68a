// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// digest is one that is well-formed.
var digest = "sha256:" + strings.Repeat("0", 64)

// installations are ways to install the operator: values of the chart, and the same by kustomize where that exists.
var installations = map[string]struct {
	values    []string
	kustomize string
}{
	"defaults":          {nil, "resources: [../default]"},
	"network policies":  {[]string{`networkPolicy.enabled=true`}, "resources: [../default]\ncomponents: [../network-policy]"},
	"without policies":  {[]string{`admissionPolicies.install=false`}, "resources: [../crd, ../rbac, ../manager]"},
	"executor, webhook": {[]string{`mode="Executor"`}, "resources: [../executor/webhook]"},
	"executor, policy":  {[]string{`mode="Executor"`, `executor.admission="Policy"`}, "resources: [../executor/policy]"},
	"fleet, executor":   {[]string{`mode="Executor"`, `featureGates.FleetPolicies=true`}, ""},
	"in two namespaces": {[]string{`namespaces=["one","two"]`, `networkPolicy.enabled=true`}, ""},
	"everything set": {[]string{
		`replicas=3`, `config={"images":{"allowed":["gcr.io/etcd-development/etcd"]},"logging":{"level":"debug"},"server":{"metricsBindAddress":"0","healthBindAddress":":8081"}}`,
		`images={"registry":"registry.example.com:5000/a","tag":"v1","etcd":"registry.example.com/etcd:v3.6.16","operator":{"repository":"b/c","digest":"` + digest + `"}}`,
		`imagePullSecrets=[{"name":"registry"}]`, `priorityClassName="system-cluster-critical"`, `nodeSelector={"a":"b"}`,
		`tolerations=[{"key":"a","operator":"Exists"}]`, `affinity={"nodeAffinity":{}}`, `podAnnotations={"a":"b"}`, `podLabels={"a":"b"}`,
		`networkPolicy={"enabled":true,"memberNamespaces":["one"],"clients":[{"podSelector":{}}],"metricsClients":[{"namespaceSelector":{}}]}`,
	}, ""},
}

// The chart and config/ have most files in common. What they do not have in common is the same as well.
func TestChartAndKustomizeInstallTheSame(t *testing.T) {
	for name, i := range installations {
		if i.kustomize == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			same(t, normalized(render(t, i.values...)), normalized(kustomize(t, i.kustomize)))
		})
	}
	t.Run("monitoring", func(t *testing.T) {
		same(t, normalized(render(t, `monitoring.enabled=true`)), normalized(kustomize(t, "resources: [../default, ../monitoring]")))
	})
	t.Run("fleet policies", func(t *testing.T) {
		for name, values := range map[string][]string{"their gate": {`featureGates.FleetPolicies=true`}, "all gates": {`featureGates.AllAlpha=true`}} {
			byHelm, byKustomize := normalized(render(t, values...)), normalized(kustomize(t, "resources: [../default]\ncomponents: [../fleet]"))
			// A component does not change the file of the configuration.
			for _, all := range []map[string]map[string]any{byHelm, byKustomize} {
				delete(all, "ConfigMap "+system+"/etcd-foreman")
			}
			t.Run(name, func(t *testing.T) { same(t, byHelm, byKustomize) })
		}
	})
	t.Run("network policies of members", func(t *testing.T) {
		g := NewWithT(t)
		of := func(all map[string]map[string]any) map[string]map[string]any {
			maps.DeleteFunc(all, func(key string, _ map[string]any) bool { return !strings.HasPrefix(key, "NetworkPolicy demo/") })
			return all
		}
		members := of(normalized(kustomize(t, "namespace: demo\nresources: [../network-policy/members]")))
		g.Expect(members).To(HaveLen(2))
		same(t, of(normalized(render(t, `networkPolicy={"enabled":true,"memberNamespaces":["demo"]}`))), members)
	})
}

func same(t *testing.T, byHelm, byKustomize map[string]map[string]any) {
	t.Helper()
	if diff := cmp.Diff(byKustomize, byHelm); diff != "" {
		t.Errorf("config/ (-) and the chart (+) differ:\n%s", diff)
	}
}

// normalized returns objects by their names, without what Helm and the chart add: labels of the chart, what keeps CRDs, and the
// checksum of the configuration. Helm creates the namespace itself. The ConfigMap is compared as what it means.
func normalized(objects []*unstructured.Unstructured) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		labels := o.GetLabels()
		maps.DeleteFunc(labels, func(key, _ string) bool {
			return strings.HasPrefix(key, "helm.sh/") || strings.HasPrefix(key, "app.kubernetes.io/")
		})
		o.SetLabels(orNone(labels))
		annotations := o.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		o.SetAnnotations(orNone(annotations))
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "annotations", "checksum/config")
		if file, found, _ := unstructured.NestedString(o.Object, "data", "config.yaml"); found {
			config := decodeConfig(file)
			o.Object["data"] = map[string]any{"config.yaml": config}
		}
		all[key(o)] = o.Object
	}
	return all
}

// orNone returns no map instead of an empty one.
func orNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func decodeConfig(file string) any {
	dir, err := os.MkdirTemp("", "config-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(at, []byte(file), 0o600); err != nil {
		return err
	}
	config, err := configv1alpha1.Load(at)
	if err != nil {
		return err
	}
	return *config
}

// What is rendered is what an API server accepts, field by field, and what the operator accepts as its configuration.
func TestRenderedObjectsAreValid(t *testing.T) {
	for _, name := range []string{system, "one", "two"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := testEnv.Client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for name, i := range installations {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			objects := render(t, i.values...)
			g.Expect(len(objects)).To(BeNumerically(">", 10))
			for _, object := range objects {
				if file, found, _ := unstructured.NestedString(object.Object, "data", "config.yaml"); found {
					g.Expect(decodeConfig(file)).To(BeAssignableToTypeOf(configv1alpha1.OperatorConfiguration{}))
				}
				manifest, err := object.MarshalJSON()
				g.Expect(err).NotTo(HaveOccurred())
				err = testEnv.Client.Patch(t.Context(), object, client.RawPatch(types.ApplyPatchType, manifest),
					client.DryRunAll, client.ForceOwnership, client.FieldOwner("test"), client.FieldValidation(metav1.FieldValidationStrict))
				g.Expect(err).NotTo(HaveOccurred(), key(object))
			}
		})
	}
}

func TestValuesAreChecked(t *testing.T) {
	for value, message := range map[string]string{
		`replica=3`:                     "'replica' not allowed",
		`replicas="3"`:                  "'/replicas'",
		`mode="Other"`:                  "'/mode'",
		`executor.admission="None"`:     "'/executor/admission'",
		`images.agent.digest="sha256:"`: "'/images/agent/digest'",
		`images.registry=""`:            "'/images/registry'",
		`images.registry="https://r/a"`: "'/images/registry'",
		`images.registry="r/a/"`:        "'/images/registry'",
		`namespaces=["A"]`:              "'/namespaces/0'",
		`crds.keep=false`:               "'keep' not allowed",
		`config={"loging":{}}`:          "'loging' not allowed",
		`featureGates={"Other":true}`:   "'Other' not allowed",
		// What a schema would refuse without a word on what to do.
		`images.agent.tag="latest"`:   "Set the tag that you built or mirrored",
		`images.tag="latest"`:         "Set the tag that you built or mirrored",
		`config={"namespaces":["a"]}`: "config.namespaces: set the value namespaces instead",
		`config={"featureGates":{}}`:  "config.featureGates: set the value featureGates instead",
		`config={"mode":"Executor"}`:  "config.mode: set the value mode instead",
		`config={"kind":"Etcd"}`:      "config.kind: remove it",
		// With another port, the kubelet's probes failed, and the operator was restarted for ever.
		`config={"server":{"healthBindAddress":":9081"}}`:           "config.server.healthBindAddress: remove it",
		`config={"server":{"healthBindAddress":"0"}}`:               "config.server.healthBindAddress: remove it",
		`config={"server":{"metricsBindAddress":":9080"}}`:          "config.server.metricsBindAddress: remove it",
		`config={"server":{"metricsBindAddress":"127.0.0.1:8080"}}`: "config.server.metricsBindAddress: remove it",
		`config={"server":{"webhookBindAddress":":443"}}`:           "config.server.webhookBindAddress: remove it",
	} {
		_, err := newHelm(t).try("template", path, "--set-json="+value)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(message)), value)
	}
}

// The schema of the chart has every field and feature gate of the configuration: what it lacks could not be set.
func TestTheSchemaKnowsTheConfiguration(t *testing.T) {
	g := NewWithT(t)
	data, err := os.ReadFile(filepath.Join(path, "values.schema.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var schema struct {
		Properties map[string]struct {
			Properties map[string]any
		}
	}
	g.Expect(json.Unmarshal(data, &schema)).To(Succeed())
	fields := []string{"apiVersion", "kind"}
	for field := range reflect.TypeFor[configv1alpha1.OperatorConfiguration]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	g.Expect(slices.Collect(maps.Keys(schema.Properties["config"].Properties))).To(ConsistOf(fields))
	gate, err := configv1alpha1.NewFeatureGate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	var gates []string
	for _, known := range gate.KnownFeatures() {
		name, _, _ := strings.Cut(known, "=")
		gates = append(gates, name)
	}
	g.Expect(slices.Collect(maps.Keys(schema.Properties["featureGates"].Properties))).To(ConsistOf(gates))
}

// What an operator in mode Executor does not heed is refused.
func TestValuesThatTheExecutorDoesNotHeed(t *testing.T) {
	for _, value := range []string{`namespaces=["one"]`, `networkPolicy.enabled=true`} {
		_, err := newHelm(t).try("template", path, `--set-json=mode="Executor"`, "--set-json="+value)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("mode Executor: leave namespaces empty")), value)
	}
}

func TestLint(t *testing.T) { newHelm(t).run("lint", "--strict", path) }

// A new user gets the safe rollouts.
func TestRolloutsAreOnByDefault(t *testing.T) {
	g := NewWithT(t)
	config := normalized(render(t))["ConfigMap "+system+"/etcd-foreman"]["data"].(map[string]any)["config.yaml"].(configv1alpha1.OperatorConfiguration)
	g.Expect(config.FeatureGates).To(HaveKeyWithValue("QuorumAwareUpdatesWithOnDelete", true))
}

// A release names its images by digest. With another tag, its digests would be those of other images.
func TestNamesOfImages(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.CopyFS(dir, os.DirFS(path))).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "files/digests.yaml"), []byte("etcd-foreman: sha256:aa\netcd-agent: sha256:bb\n"), 0o600)).To(Succeed())
	for values, want := range map[string][2]string{
		`images.registry="ghcr.io/etcd-foreman"`:                                                  {"ghcr.io/etcd-foreman/etcd-foreman:dev@sha256:aa", "ghcr.io/etcd-foreman/etcd-agent:dev@sha256:bb"},
		`images={"registry":"r:5000/a"}`:                                                          {"r:5000/a/etcd-foreman:dev@sha256:aa", "r:5000/a/etcd-agent:dev@sha256:bb"},
		`images.registry="localhost:5001"`:                                                        {"localhost:5001/etcd-foreman:dev@sha256:aa", "localhost:5001/etcd-agent:dev@sha256:bb"},
		`images={"registry":"r/a","tag":"v2"}`:                                                    {"r/a/etcd-foreman:v2", "r/a/etcd-agent:v2"},
		`images={"agent":{"tag":"v2"},"operator":{"repository":"r/b","digest":"` + digest + `"}}`: {"r/b:dev@" + digest, "ghcr.io/etcd-foreman/etcd-agent:v2"},
	} {
		rendered := newHelm(t).run("template", dir, "--set-json="+values)
		g.Expect(rendered).To(And(ContainSubstring("image: "+want[0]+"\n"), ContainSubstring("etcdAgent: "+want[1]+"\n")), values)
	}
}

// A Prometheus that selects monitors by labels finds them; members are scraped in the namespaces of the operator; and Prometheus may
// scrape the operator in every mode.
func TestMonitoring(t *testing.T) {
	for _, mode := range []string{"Operator", "Executor"} {
		g := NewWithT(t)
		objects := render(t, `monitoring={"enabled":true,"labels":{"release":"prometheus"}}`, fmt.Sprintf("mode=%q", mode))
		var monitoring []string
		for _, o := range objects {
			if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
				monitoring = append(monitoring, key(o))
				g.Expect(o.GetLabels()).To(HaveKeyWithValue("release", "prometheus"), key(o))
			}
			if o.GetKind() == "ClusterRoleBinding" {
				role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
				g.Expect(objects).To(ContainElement(WithTransform(key, Equal("ClusterRole /"+role))), key(o))
			}
		}
		g.Expect(monitoring).To(ConsistOf("PodMonitor "+system+"/etcd-foreman", "PodMonitor "+system+"/etcd-foreman-members", "PrometheusRule "+system+"/etcd-foreman"))
	}
	g := NewWithT(t)
	members := normalized(render(t, `monitoring.enabled=true`, `namespaces=["one"]`))["PodMonitor "+system+"/etcd-foreman-members"]
	selector, _, _ := unstructured.NestedStringSlice(members, "spec", "namespaceSelector", "matchNames")
	g.Expect(selector).To(ConsistOf("one"))
	// What a member runs may be a tenant's choice.
	endpoints, _, _ := unstructured.NestedSlice(members, "spec", "podMetricsEndpoints")
	g.Expect(endpoints).To(ConsistOf(HaveKeyWithValue("metricRelabelings", ConsistOf(And(HaveKeyWithValue("action", "drop"), HaveKeyWithValue("regex", "(etcd_foreman|etcddruid)_.*"))))))
	for values, want := range map[string]int{`{"enabled":true}`: 10000, `{"enabled":true,"memberSampleLimit":3000}`: 3000} {
		monitors := normalized(render(t, "monitoring="+values))
		g.Expect(monitors["PodMonitor "+system+"/etcd-foreman-members"]).To(HaveKeyWithValue("spec", HaveKeyWithValue("sampleLimit", BeNumerically("==", want))), values)
		g.Expect(monitors["PodMonitor "+system+"/etcd-foreman"]).To(HaveKeyWithValue("spec", Not(HaveKey("sampleLimit"))), values)
	}
	insecure := normalized(render(t, `monitoring.enabled=true`, `config={"server":{"insecureMetrics":true}}`))
	g.Expect(insecure["PodMonitor "+system+"/etcd-foreman"]).To(HaveKeyWithValue("spec", HaveKeyWithValue("podMetricsEndpoints", ConsistOf(Equal(map[string]any{"port": "metrics"})))))
	elsewhere := newHelm(t).run("template", "x", path, "--namespace=elsewhere", "--set=monitoring.enabled=true")
	g.Expect(elsewhere).NotTo(ContainSubstring("namespace: etcd-foreman-system"))
}

// Without the policy that tells task types apart, nobody gets the right to create tasks.
func TestWithoutPoliciesNobodyMayCreateTasks(t *testing.T) {
	for name, objects := range map[string][]*unstructured.Unstructured{
		"chart":     render(t, `admissionPolicies.install=false`),
		"kustomize": kustomize(t, "resources: [../crd, ../rbac, ../manager]"),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(verbs(objects, "etcd-foreman-view")).To(HaveKeyWithValue("etcdoperatortasks", ConsistOf("get", "list", "watch")), "the test can tell")
			for _, o := range objects {
				if o.GetKind() == "ClusterRole" && o.GetName() != "etcd-foreman" {
					g.Expect(verbs(objects, o.GetName())["etcdoperatortasks"]).To(Or(BeNil(), ConsistOf("get", "list", "watch")), o.GetName())
				}
			}
		})
	}
}

// With namespaces, the operator has no right to Secrets, pods or tasks outside of them.
func TestNamespacesTakeRightsAway(t *testing.T) {
	g := NewWithT(t)
	everywhere, restricted := render(t), render(t, `namespaces=["one","two"]`)
	all := verbs(everywhere, "etcd-foreman")
	outside := map[string]any{}
	for resource, v := range verbs(restricted, "etcd-foreman") {
		outside[resource] = v
	}
	g.Expect(outside).To(HaveLen(5))
	for _, resource := range []string{"nodes", "persistentvolumes", "storageclasses", "tokenreviews", "subjectaccessreviews"} {
		g.Expect(outside).To(HaveKeyWithValue(resource, all[resource]))
		delete(all, resource)
	}
	for _, namespace := range []string{"one", "two"} {
		var role *unstructured.Unstructured
		for _, o := range restricted {
			if o.GetKind() == "Role" && o.GetNamespace() == namespace && o.GetName() == "etcd-foreman-etcds" {
				role = o
			}
		}
		g.Expect(role).NotTo(BeNil())
		role.SetKind("ClusterRole")
		g.Expect(verbs([]*unstructured.Unstructured{role}, role.GetName())).To(Equal(all), "nothing is missing in "+namespace)
	}
	objects := normalized(restricted)
	g.Expect(objects).To(HaveKey("RoleBinding kube-node-lease/etcd-foreman-nodes"))
	g.Expect(objects["Role kube-node-lease/etcd-foreman-nodes"]["rules"]).To(HaveExactElements(HaveKeyWithValue("verbs", HaveExactElements("get"))), "it sees whether a kubelet has fallen silent")
}

// The rights that policies of the fleet need are granted where the feature gate is on, in both modes.
func TestFleetPoliciesNeedTheirGate(t *testing.T) {
	for value, granted := range map[string]bool{
		`featureGates={}`: false, `featureGates={"FleetPolicies":false,"AllAlpha":true}`: false,
		`featureGates={"FleetPolicies":true}`: true, `featureGates={"AllAlpha":true}`: true,
	} {
		for _, mode := range []string{`mode="Operator"`, `mode="Executor"`} {
			g := NewWithT(t)
			var roles []string
			objects := render(t, mode, value)
			for _, o := range objects {
				if rules := fmt.Sprint(o.Object["rules"]); o.GetName() != "etcd-foreman-fleet" && (strings.Contains(rules, "etcdfleetpolicies/status") || strings.Contains(rules, "namespaces") || strings.Contains(rules, "etcd-foreman-fleet")) {
					roles = append(roles, key(o))
				}
			}
			config := normalized(objects)["ConfigMap "+system+"/etcd-foreman"]["data"].(map[string]any)["config.yaml"].(configv1alpha1.OperatorConfiguration)
			gates, err := configv1alpha1.NewFeatureGate(config.FeatureGates)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(gates.Enabled(configv1alpha1.FleetPolicies)).To(Equal(granted), mode+" "+value)
			if granted {
				g.Expect(roles).To(ConsistOf("ClusterRole /etcd-foreman-fleet-policies", "Role "+system+"/etcd-foreman-fleet-policies"), mode+" "+value)
			} else {
				g.Expect(roles).To(BeEmpty(), mode+" "+value)
			}
		}
	}
}

// The right to write Secrets is granted only where the policy that narrows it is, and the policy is for the operator of the release.
func TestManagedTLSIsNarrowed(t *testing.T) {
	named := func(objects []*unstructured.Unstructured) []string {
		var found []string
		for _, o := range objects {
			if o.GetName() == "etcd-foreman-managed-tls" {
				found = append(found, key(o))
			}
		}
		return found
	}
	const policy, binding = "ValidatingAdmissionPolicy /etcd-foreman-managed-tls", "ValidatingAdmissionPolicyBinding /etcd-foreman-managed-tls"
	g := NewWithT(t)
	g.Expect(named(render(t))).To(ConsistOf(policy, binding, "ClusterRole /etcd-foreman-managed-tls", "ClusterRoleBinding /etcd-foreman-managed-tls"))
	certificates := ContainElement(WithTransform(func(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object["rules"]) }, ContainSubstring("certificates")))
	g.Expect(render(t)).NotTo(certificates, "no right to Certificates of cert-manager, unless it is asked for")
	g.Expect(render(t, `managedTLS.certManager=true`)).To(certificates)
	g.Expect(named(render(t, `managedTLS.enabled=false`))).To(ConsistOf(policy, binding))
	g.Expect(named(render(t, `admissionPolicies.install=false`))).To(BeEmpty())
	g.Expect(named(render(t, `namespaces=["one"]`))).To(ConsistOf(policy, binding, "Role one/etcd-foreman-managed-tls", "RoleBinding one/etcd-foreman-managed-tls"))
	elsewhere := newHelm(t).run("template", "x", path, "--namespace=elsewhere")
	g.Expect(elsewhere).To(ContainSubstring("system:serviceaccount:elsewhere:etcd-foreman'"))
	g.Expect(elsewhere).NotTo(ContainSubstring("etcd-foreman-system"))
}

// verbs returns the verbs that a ClusterRole allows, by resource.
func verbs(objects []*unstructured.Unstructured, role string) map[string][]any {
	all := map[string][]any{}
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" || o.GetName() != role {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			resources, _ := rule.(map[string]any)["resources"].([]any)
			for _, resource := range resources {
				all[resource.(string)] = append(all[resource.(string)], rule.(map[string]any)["verbs"].([]any)...)
			}
		}
	}
	return all
}

// Pods of clusters that were adopted from etcd-druid keep its label, and are as exposed as others.
func TestAdoptedMembersAreSelected(t *testing.T) {
	g := NewWithT(t)
	selectors := map[string]labels.Selector{}
	for _, object := range render(t, `networkPolicy={"enabled":true,"memberNamespaces":["demo"]}`, `monitoring.enabled=true`) {
		for name, path := range map[string][]string{
			"NetworkPolicy etcd-foreman-members": {"spec", "podSelector"}, "PodMonitor etcd-foreman-members": {"spec", "selector"},
		} {
			if selector, found, _ := unstructured.NestedMap(object.Object, path...); found && name == object.GetKind()+" "+object.GetName() {
				s := &metav1.LabelSelector{}
				g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(selector, s)).To(Succeed())
				parsed, err := metav1.LabelSelectorAsSelector(s)
				g.Expect(err).NotTo(HaveOccurred())
				selectors[name] = parsed
			}
		}
	}
	g.Expect(selectors).To(HaveLen(2))
	for name, selector := range selectors {
		for manager, selected := range map[string]bool{v1alpha1.ManagedBy: true, v1alpha1.ManagedByDruid: true, "Helm": false, "": false} {
			member := labels.Set{v1alpha1.LabelManagedBy: manager, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet, v1alpha1.LabelPartOf: "main"}
			g.Expect(selector.Matches(member)).To(Equal(selected), "%s, managed by %q", name, manager)
		}
	}
}
