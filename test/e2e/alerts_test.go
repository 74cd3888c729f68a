//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A real Prometheus with the rules of config/monitoring scrapes the operator. While a member is frozen, an alert fires, and
// it resolves once the member is back. Nothing else fires for the cluster.
func TestAlertFiresAndResolves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	prometheus := c.prometheus()
	firing := func(g Gomega) []string { return c.firing(g, prometheus) }
	// The metrics have been scraped, and nothing is wrong.
	c.Eventually(func(g Gomega) string {
		return c.query(g, prometheus, `sum(etcd_foreman_etcd_condition{condition="AllMembersReady",etcd_namespace="`+c.namespace+`"})`)
	}).Should(Equal("1"))
	c.Eventually(firing).Should(BeEmpty())

	thaw := c.freeze(0)
	c.Eventually(firing).Should(Equal([]string{"EtcdMemberDown"}))
	thaw()
	c.Eventually(firing).Should(BeEmpty())
	c.writesSurvive()
}

// prometheus starts Prometheus, which evaluates the rules every second, and returns its address. The alerts wait for a few
// seconds only.
func (c *cluster) prometheus() string {
	c.t.Helper()
	dir := c.t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		c.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}
	data, err := os.ReadFile("../../config/monitoring/rules.yaml")
	c.Expect(err).NotTo(HaveOccurred())
	var rules struct {
		Spec map[string]any `json:"spec"`
	}
	c.Expect(yaml.Unmarshal(data, &rules)).To(Succeed())
	spec, err := yaml.Marshal(rules.Spec)
	c.Expect(err).NotTo(HaveOccurred())
	write("rules.yaml", regexp.MustCompile(`(?m)for: .*$`).ReplaceAllString(string(spec), "for: 3s"))
	token := write("token", c.metricsToken())

	operators := &corev1.PodList{}
	c.Expect(kube.List(c.t.Context(), operators, client.InNamespace(operatorNamespace))).To(Succeed())
	var targets []string
	for _, pod := range operators.Items {
		targets = append(targets, fmt.Sprintf("%q", pod.Status.PodIP+":8080"))
	}
	config := write("prometheus.yaml", fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: etcd-foreman
  scheme: https
  tls_config: {insecure_skip_verify: true}
  authorization: {credentials_file: %s}
  static_configs: [{targets: [%s]}]
`, token, strings.Join(targets, ", ")))

	binary := filepath.Join(dir, "prometheus")
	build := exec.CommandContext(c.t.Context(), "go", "-C", "../tools/prometheus", "build", "-tags", "remove_all_sd", "-o", binary, "github.com/prometheus/prometheus/cmd/prometheus")
	out, err := build.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	free, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	c.Expect(err).NotTo(HaveOccurred())
	address := free.Addr().String()
	c.Expect(free.Close()).To(Succeed())
	ctx, stop := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	c.Expect(server.Start()).To(Succeed())
	c.t.Cleanup(func() { stop(); _ = server.Wait() })
	return "http://" + address
}

// metricsToken returns a token that may read the operator's metrics.
func (c *cluster) metricsToken() string {
	c.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "prometheus"}}
	c.create(account)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-" + c.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "etcd-foreman-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.namespace, Name: account.Name}},
	}
	c.create(binding)
	c.t.Cleanup(func() { _ = kube.Delete(context.Background(), binding) })
	request := &authenticationv1.TokenRequest{}
	c.Expect(kube.SubResource("token").Create(c.t.Context(), account, request)).To(Succeed())
	return request.Status.Token
}

// get decodes an answer of Prometheus.
func (c *cluster) get(g Gomega, url string, into any) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(json.NewDecoder(response.Body).Decode(into)).To(Succeed())
}

// firing returns the alerts of the cluster that fire, and those of no cluster.
func (c *cluster) firing(g Gomega, prometheus string) []string {
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	c.get(g, prometheus+"/api/v1/alerts", &answer)
	var names []string
	for _, a := range answer.Data.Alerts {
		if of := a.Labels["etcd_namespace"]; a.State == "firing" && (of == "" || of == c.namespace) {
			names = append(names, a.Labels["alertname"])
		}
	}
	return names
}

// query returns the value of an expression; empty if it has none.
func (c *cluster) query(g Gomega, prometheus, expr string) string {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, prometheus+"/api/v1/query", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	q := request.URL.Query()
	q.Set("query", expr)
	var answer struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	c.get(g, request.URL.String()+"?"+q.Encode(), &answer)
	if len(answer.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1])
}
