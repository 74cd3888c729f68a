//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	plugincmd "github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clients returns a client of some members, or of all.
func (c *cluster) clients(of ...int) *clientv3.Client {
	c.t.Helper()
	config := clientv3.Config{Logger: zap.NewNop(), MaxCallSendMsgSize: 8 << 20, MaxCallRecvMsgSize: 1 << 30}
	if len(of) == 0 {
		for i := range int(c.etcd(c).Spec.Replicas) {
			of = append(of, i)
		}
	}
	for _, i := range of {
		pod, scheme := c.pod(c, i), "http"
		if c.tls != nil {
			scheme, config.TLS = "https", c.tls(pod)
			config.TLS.InsecureSkipVerify = true // one name for all
		}
		config.Endpoints = append(config.Endpoints, fmt.Sprintf("%s://%s:2379", scheme, pod.Status.PodIP))
	}
	made, err := clientv3.New(config)
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { _ = made.Close() })
	return made
}

// grant gives a user a ClusterRole in the namespace, and some rights besides.
func (c *cluster) grant(user, clusterRole string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	meta := metav1.ObjectMeta{Namespace: c.namespace, Name: user}
	if len(rules) > 0 {
		c.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
		meta.Name += "-more"
		c.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}})
		meta.Name = user
	}
	c.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}})
}

// A user asks why an Etcd with TLS is slow, with fewer and with more rights: it is measured through port-forwards, hot prefixes come
// from the agents, and what could not be seen is named with what would give it.
func TestDiagnoseAsAUser(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, issue, useTLS, withStore(time.Minute), withBackupTLS)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.t.Cleanup(load.Writes(c.clients(), 50, 1<<10))
	plugin := c.plugin()
	diagnose := func(flags string) string {
		t.Helper()
		began := time.Now()
		out, err := exec.CommandContext(t.Context(), "sh", "-c", plugin+" diagnose main --for 10s "+flags).CombinedOutput()
		t.Logf("%s, in %s:\n%s", flags, time.Since(began).Round(100*time.Millisecond), out)
		c.Expect(err).NotTo(HaveOccurred())
		if strings.Contains(flags, "--as ") || !strings.Contains(flags, "--show-keys") {
			c.Expect(string(out)).NotTo(Or(ContainSubstring("default/p-"), ContainSubstring("HOT KEYS")), "keys are tenants' data")
		}
		return string(out)
	}

	c.grant("viewer", "view")
	c.Expect(diagnose("--as viewer")).To(And(
		ContainSubstring("No member was measured"), ContainSubstring("What would give it: the right to get and create pods/portforward"), ContainSubstring("3 of 3 voters serve, as the operator last reported; quorum is 2. Alarms are not known."),
		Not(ContainSubstring("list Leases")), Not(ContainSubstring("To do:")),
	))
	c.grant("forwarder", "view", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}})
	c.Expect(diagnose("--as forwarder --logs")).To(And(
		MatchRegexp(`main-0 .*≤`), ContainSubstring("the right to get the Secrets of clientUrlTls"), ContainSubstring("nodes/proxy"), Not(ContainSubstring("pods/log")),
	), "metrics are served without a client certificate")

	// On a busy machine, there is a moment without a leader now and then.
	says := func(flags string, what OmegaMatcher) {
		t.Helper()
		c.Eventually(func() string { return diagnose(flags) }).WithTimeout(patience).Should(what)
	}
	says("--logs --hot-prefixes", And(
		ContainSubstring("3 of 3 voters serve; quorum is 2. No alarm is raised."), MatchRegexp(`/registry/pods/… +\d+ +\d+%`), MatchRegexp(`main-\d +leader `),
	))
	says("--hot-prefixes --show-keys", MatchRegexp(`HOT KEYS\nKEY .*\n/[^… ]+ `)) // an administrator may see them

	c.Expect(diagnose("--large-prefixes")).To(MatchRegexp(`LARGE PREFIXES\nIn full snapshot Full-\S+, taken .* ago: \d+ keys`))
	jobs := &batchv1.JobList{}
	c.Expect(kube.List(t.Context(), jobs, client.InNamespace(c.namespace), client.MatchingLabels{v1alpha1.LabelComponent: v1alpha1.ComponentDiagnosisJob})).To(Succeed())
	c.Expect(jobs.Items).To(BeEmpty())

	// Who holds the operator's key and lacks the right to see keys sees prefixes.
	c.grant("operating", "edit")
	signing := metav1.ObjectMeta{Namespace: plugincmd.OperatorNamespace, Name: "signing-" + c.namespace}
	c.create(&rbacv1.Role{ObjectMeta: signing, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{auth.KeySecret}, Verbs: []string{"get"}}}})
	c.create(&rbacv1.RoleBinding{ObjectMeta: signing, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: signing.Name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "operating"}}})
	says("--as operating --hot-prefixes --show-keys", And(MatchRegexp(`/registry/pods/… +\d+ +\d+%`), ContainSubstring("the verb show-keys on etcds")))

	var said struct {
		Headline string
		Members  []struct{ Linearizable, Fsync string }
	}
	c.Eventually(func(g Gomega) {
		raw, err := exec.CommandContext(t.Context(), "sh", "-c", plugin+" diagnose main --for 5s -o json").Output()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Unmarshal(raw, &said)).To(Succeed(), "%s", raw)
		g.Expect(said.Headline).NotTo(BeEmpty())
		g.Expect(said.Members).To(HaveLen(3))
		g.Expect(said.Members[0].Linearizable).NotTo(BeEmpty())
	}).WithTimeout(patience).Should(Succeed())

	c.replicas(0)
	c.untilHibernated(metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	c.Eventually(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(kube.List(t.Context(), pods, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
	c.Expect(diagnose("")).To(And(ContainSubstring("It is hibernated: no member is running."), Not(ContainSubstring("NOT SEEN"))))
}
