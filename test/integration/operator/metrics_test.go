// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// token makes a ServiceAccount, with a ClusterRole where one is given, and a token of it.
func token(t *testing.T, g Gomega, namespace, name, role string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Expect(testEnv.Client.Create(t.Context(), account)).To(Succeed())
	if role != "" {
		g.Expect(testEnv.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		})).To(Succeed())
	}
	created, err := kubernetes.NewForConfigOrDie(testEnv.Config).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return created.Status.Token
}

// scrape asks for metrics, and returns the status code and the body.
func scrape(t *testing.T, scheme, address, bearer string) (int, string, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	// The certificate is the operator's own where none is given.
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// Metrics name the Etcds of all tenants: only clients with the right to read them get them, over TLS.
func TestMetricsAreProtected(t *testing.T) {
	g := machine.Gomega(t)
	namespace, address := testEnv.Namespace(t), machine.FreeAddress(t)
	bind(t, g, namespace)
	reader, nobody := token(t, g, namespace, "prometheus", "etcd-foreman-metrics-reader"), token(t, g, namespace, "nobody", "")
	startWith(t, []string{namespace}, fmt.Sprintf("metricsBindAddress: %q", address))

	g.Eventually(func(g Gomega) {
		code, body, err := scrape(t, "https", address, reader)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(code).To(Equal(http.StatusOK))
		g.Expect(body).To(ContainSubstring("controller_runtime_active_workers"))
		g.Expect(body).To(MatchRegexp(`(?m)^etcd_foreman_build_info\{commit="[^"]+",etcd="[^"]+",go_version="go[^"]+",kubernetes="[^"]+",version="[^"]+"\} 1$`))
	}).Should(Succeed())
	for name, c := range map[string]struct {
		bearer string
		want   OmegaMatcher
	}{
		"without a token": {"", Equal(http.StatusUnauthorized)},
		// controller-runtime answers 500 where the API server finds the token wrong.
		"with a forged token": {"forged", Or(Equal(http.StatusUnauthorized), Equal(http.StatusInternalServerError))},
		"without the right":   {nobody, Equal(http.StatusForbidden)},
	} {
		code, body, err := scrape(t, "https", address, c.bearer)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(code).To(c.want, name)
		g.Expect(body).NotTo(ContainSubstring("workers"), name)
	}
	code, body, err := scrape(t, "http", address, reader)
	g.Expect(err != nil || code != http.StatusOK).To(BeTrue(), "without TLS")
	g.Expect(body).NotTo(ContainSubstring("workers"))
}

// What scraped an earlier version goes on.
func TestInsecureMetrics(t *testing.T) {
	g := machine.Gomega(t)
	namespace, address := testEnv.Namespace(t), machine.FreeAddress(t)
	bind(t, g, namespace)
	startWith(t, []string{namespace}, fmt.Sprintf("metricsBindAddress: %q, insecureMetrics: true", address))
	g.Eventually(func(g Gomega) {
		code, _, err := scrape(t, "http", address, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(code).To(Equal(http.StatusOK))
	}).Should(Succeed())
}

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	out, err := exec.CommandContext(t.Context(), testEnv.Build(t, "cmd/etcd-foreman"), "--version").Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(MatchRegexp(`^etcd-foreman \S+\ncommit: +\S+\ngo: +go1\S+\netcd: .*\nKubernetes: .*\n$`))
}
