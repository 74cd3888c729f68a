// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package executor tests the operator's program in executor mode, with its roles, beside a simulation of etcd-druid: its writes of
// StatefulSets and the rules of its webhook. API server, StatefulSet controller and etcd with TLS are real. The kubelet is
// simulated, and the members are processes that keep running while their pods are replaced.
package executor

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	druidmode "github.com/etcd-foreman/etcd-foreman/internal/druid"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	name     = druid.Name
	own      = "etcd-foreman-system"
	executor = "system:serviceaccount:etcd-foreman-system:etcd-foreman"
	members  = druid.Members
)

var (
	testEnv  *env.Env
	auditLog string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "executor-audit-")
	if err != nil {
		panic(err)
	}
	auditLog = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		panic(err)
	}
	code := env.Main(m, &testEnv, env.WithoutCRDs(), env.WithControllerManager(), env.WithAudit(policy, auditLog), env.WithManifests(
		"crd/task/druid.gardener.cloud_etcdoperatortasks.yaml", "executor/base/namespace.yaml", "executor/base/role.yaml", "executor/webhook/role.yaml", "executor/webhook/publisher_role.yaml", "executor/webhook/webhook.yaml",
		"../"+druid.Manifests,
		"admission/task/task_operator_policy.yaml",
		"admission/managed_tls_policy.yaml", "admission/operator_objects_policy.yaml", // of an operator that was in operator mode before
	))
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// request is one of the executor, from the audit log.
type request struct {
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus   struct{ Code int }         `json:"responseStatus"`
	ImpersonatedUser *struct{ Username string } `json:"impersonatedUser"`
}

func (r request) String() string {
	resource := strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
	if r.ObjectRef.Namespace == own {
		resource += " in its own namespace"
	}
	return r.Verb + " " + resource
}

// requests are the kinds of requests of the executor in a namespace, in its own, and to objects in none, with one example of each.
func requests(g Gomega, namespace string) map[string]request {
	file, err := os.Open(auditLog)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	all := map[string]request{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		g.Expect(json.Unmarshal(lines.Bytes(), &r)).To(Succeed())
		if r.ImpersonatedUser == nil || r.ImpersonatedUser.Username != executor || r.ObjectRef.Resource == "" {
			continue
		}
		if at := r.ObjectRef.Namespace; at == "" || at == own || at == namespace {
			all[r.String()] = r
		}
	}
	g.Expect(lines.Err()).NotTo(HaveOccurred())
	return all
}

// cluster is an Etcd of etcd-druid in a namespace that has opted in.
type cluster struct {
	*env.Cluster
	druid druid.Druid
	// members are real.
	members *env.Members
	// Ports of the operator.
	webhook, metrics int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Cluster: testEnv.NewCluster(t, name), webhook: machine.FreePort(t), metrics: machine.FreePort(t)}
	c.Kubelet = testEnv.StartKubeletAt(t, c.Namespace, env.Loopback)
	as, err := druid.NewClient(testEnv.Config, testEnv.Scheme)
	c.Expect(err).NotTo(HaveOccurred())
	etcd, err := druid.Etcd(c.Namespace)
	c.Expect(err).NotTo(HaveOccurred())
	c.druid = druid.Druid{Client: as, Etcd: etcd, Adapt: c.adapt}
	c.label(v1alpha1.ManagedBy)
	c.switchOn()
	c.startMembers()
	// The API server serves a new type a moment later.
	c.Eventually(func() error { return as.Create(t.Context(), etcd) }).Should(Succeed())
	return c
}

// adapt has the operator ask the members at their port.
func (c *cluster) adapt(template *corev1.PodTemplateSpec) {
	template.Spec.Containers[0].Ports[1].ContainerPort = int32(c.members.Port)
}

// label lets admission change StatefulSets of the namespace, or not.
func (c *cluster) label(value string) {
	c.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelRolloutBy, value)
	c.Expect(testEnv.Client.Patch(c.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

func (c *cluster) theSwitch() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: v1alpha1.RolloutsConfigMap}}
}

func (c *cluster) switchOn() {
	c.T.Helper()
	c.Expect(testEnv.Client.Create(c.T.Context(), c.theSwitch())).To(Succeed())
	c.T.Cleanup(func() { _ = client.IgnoreNotFound(testEnv.Client.Delete(context.Background(), c.theSwitch())) })
}

// startMembers starts an etcd cluster whose members serve clients with TLS, and creates the Secrets of it.
func (c *cluster) startMembers() {
	c.T.Helper()
	ca, err := certs.NewCA("etcd")
	c.Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue([]string{fmt.Sprintf("*.%s-peer.%s.svc", name, c.Namespace)})
	c.Expect(err).NotTo(HaveOccurred())
	for secret, data := range map[string]map[string][]byte{
		druid.CASecret: {"bundle.crt": ca.PEM}, druid.ServerSecret: {"tls.crt": pair.Certificate, "tls.key": pair.Key}, druid.ClientSecret: {"tls.crt": pair.Certificate, "tls.key": pair.Key},
	} {
		c.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: secret}, Data: data})
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	c.Expect(err).NotTo(HaveOccurred())
	// The certificate names no address.
	clients := &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}
	c.members = testEnv.StartSecureMembers(c.T, name, slices.Repeat([]string{c.T.TempDir()}, members), clients, "--client-cert-auth",
		"--trusted-ca-file="+machine.WriteFile(c.T, "ca.crt", ca.PEM), "--cert-file="+machine.WriteFile(c.T, "tls.crt", pair.Certificate), "--key-file="+machine.WriteFile(c.T, "tls.key", pair.Key))
}

// reconcile reconciles the Etcd as etcd-druid does.
func (c *cluster) reconcile(template string) {
	c.T.Helper()
	c.Expect(c.druid.Reconcile(c.T.Context(), template)).To(Succeed())
}

// allUpdated is when etcd-druid shows an Etcd as ready, and all its members as updated.
func allUpdated(g Gomega, set *appsv1.StatefulSet) {
	g.Expect(druid.Ready(set)).To(BeEmpty())
	g.Expect(druid.AllMembersUpdated(set)).To(BeTrue(), "AllMembersUpdated: %+v", set.Status)
}

func marked(g Gomega, set *appsv1.StatefulSet) {
	g.Expect(set.Spec.UpdateStrategy).To(Equal(appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}))
	g.Expect(set.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationRolloutBy, v1alpha1.ManagedBy))
}

// start starts the operator with its roles, more of its configuration, and the webhook, which the API server then reaches.
func (c *cluster) start(config ...string) (stop func()) {
	c.T.Helper()
	c.reach()
	c.publish()
	return testEnv.StartOperator(c.T, fmt.Sprintf(`mode: Executor
leaderElection: {namespace: %s}
server: {metricsBindAddress: "127.0.0.1:%d", insecureMetrics: true, healthBindAddress: "0", webhookBindAddress: "127.0.0.1:%d"}
`, own, c.metrics, c.webhook)+strings.Join(config, "\n"))
}

// publish writes the CA to the configuration of the webhook, as the ServiceAccount for that, until the test ends.
func (c *cluster) publish() {
	as := rest.CopyConfig(testEnv.Config)
	as.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + own + ":etcd-foreman-webhook-ca", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + own, "system:authenticated"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- druidmode.PublishWebhookCA(ctx, as, own) }()
	c.T.Cleanup(func() {
		cancel()
		c.Expect(<-done).To(Succeed())
	})
}

// reach has the API server call the webhook at its port: there is no Service network.
func (c *cluster) reach() {
	c.T.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	c.Expect(testEnv.Client.Get(c.T.Context(), client.ObjectKey{Name: "etcd-foreman-rollouts"}, configuration)).To(Succeed())
	configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d/mutate-statefulsets", c.webhook))}
	configuration.Webhooks[0].TimeoutSeconds = ptr.To(int32(10))
	c.Expect(testEnv.Client.Update(c.T.Context(), configuration)).To(Succeed())
}

// removePolicy removes the policy, so that other tests have the webhook alone.
func (c *cluster) removePolicy() {
	for _, kind := range []string{"MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("admissionregistration.k8s.io/v1")
		u.SetKind(kind)
		u.SetName("etcd-foreman-rollouts")
		c.Expect(testEnv.Client.Delete(context.Background(), u)).To(Succeed())
	}
	// The API server obeys it a moment longer, which the next test must not see.
	ctx := context.Background()
	c.Expect(client.IgnoreAlreadyExists(testEnv.Client.Create(ctx, c.theSwitch()))).To(Succeed())
	c.Eventually(func(g Gomega) {
		set := &appsv1.StatefulSet{}
		c.druid.Build(set, "1")
		set.Name = "unmarked"
		g.Expect(c.druid.Client.Create(ctx, set, client.DryRunAll)).To(Succeed())
		g.Expect(set.Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	}).Should(Succeed())
}

// outdatedWithoutTask is the operator's metric of that name for the Etcd; empty if it has none.
func (c *cluster) outdatedWithoutTask() (string, error) {
	return c.metric(fmt.Sprintf("etcddruid_rollout_outdated_without_task{etcd=%q,etcd_namespace=%q}", name, c.Namespace))
}

// metric is the value of one of the operator's series; empty if it has none.
func (c *cluster) metric(series string) (string, error) {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", c.metrics))
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return value, nil
		}
	}
	return "", nil
}

// refuseTasks has the API server refuse new tasks in the namespace, until allow is called.
func (c *cluster) refuseTasks() (allow func()) {
	c.T.Helper()
	ctx, meta := context.Background(), metav1.ObjectMeta{Name: "refuse-" + c.Namespace}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"etcdoperatortasks"}},
		}}}},
		Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.metadata.namespace != %q", c.Namespace)}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	allow = func() {
		for _, o := range []client.Object{binding, policy} {
			c.Expect(client.IgnoreNotFound(testEnv.Client.Delete(ctx, o))).To(Succeed())
		}
	}
	c.T.Cleanup(allow)
	for _, o := range []client.Object{policy, binding} {
		c.Expect(testEnv.Client.Create(ctx, o)).To(Succeed())
	}
	c.Eventually(func() error {
		return testEnv.Client.Create(ctx, c.NewTask("refused", v1alpha1.QuorumAwareRollout, ""), client.DryRunAll)
	}).Should(MatchError(ContainSubstring(meta.Name)))
	return allow
}
