// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/golden"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

const header = "apiVersion: operator.config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\n"

const minimal = header + "images: {etcdAgent: localhost/etcd-agent:v1}\n"

func load(t *testing.T, content string) (*OperatorConfiguration, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

func TestDefaults(t *testing.T) {
	g := NewWithT(t)
	config, err := load(t, minimal)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := yaml.Marshal(config)
	g.Expect(err).NotTo(HaveOccurred())
	golden.Check(t, "defaults.yaml", got)
}

func TestLoadRefuses(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"no kind", "images: {etcdAgent: a}", `kind "" are not`},
		{"other version", "apiVersion: operator.config.druid.gardener.cloud/v1\nkind: OperatorConfiguration", "are not"},
		{"unknown field", minimal + "replicas: 3", `unknown field "replicas"`},
		{"field twice", minimal + "images: {}", `"images" already set`},
		{"no agent", header, "images.etcdAgent: Required value: name the image"},
		{"renewal after the lease", minimal + "leaderElection: {renewDeadline: 20s}", "leaderElection.leaseDuration: Invalid value: \"15s\": must be at least renewDeadline plus 4s"},
		{"no time for the last step of a leader", minimal + "leaderElection: {renewDeadline: 12s}", "leaderElection.leaseDuration: Invalid value: \"15s\": must be at least renewDeadline plus 4s"},
		{"retry after the deadline", minimal + "leaderElection: {retryPeriod: 9s}", "must be greater than 1.2 times retryPeriod"},
		{"no retry", minimal + "leaderElection: {retryPeriod: -1s}", "leaderElection.retryPeriod: Invalid value"},
		{"no port", minimal + "server: {metricsBindAddress: localhost}", "server.metricsBindAddress: Invalid value: \"localhost\": must be host:port"},
		{"profiles on all addresses", minimal + "server: {pprofBindAddress: ':6060'}", "server.pprofBindAddress: Invalid value: \":6060\": must be a loopback address"},
		{"no namespace", minimal + "namespaces: [a, 'B b']", "namespaces[1]: Invalid value"},
		{"namespace twice", minimal + "namespaces: [a, a]", "namespaces[1]: Duplicate value"},
		{"a claim without a namespace", minimal + "backup: {localClaims: [backups]}", "backup.localClaims[0]: Invalid value: \"backups\": must be NAMESPACE/NAME"},
		{"a claim of any namespace", minimal + "backup: {localClaims: ['*/backups']}", "backup.localClaims[0]: Invalid value"},
		{"a source without a namespace", minimal + "joinSources: ['https://etcd.example.com:2379']", "joinSources[0]: Invalid value"},
		{"a source of any namespace", minimal + "joinSources: ['*/https://etcd.example.com:2379']", "joinSources[0]: Invalid value"},
		{"a source without a scheme", minimal + "joinSources: ['*', 'ns/etcd.example.com:2379']", "joinSources[1]: Invalid value: \"ns/etcd.example.com:2379\": must be NAMESPACE/URL"},
		{"negative qps", minimal + "clientConnection: {qps: -1}", "clientConnection.qps"},
		{"negative burst", minimal + "clientConnection: {burst: -1}", "clientConnection.burst"},
		{"negative concurrency", minimal + "controllers: {task: {concurrentSyncs: -1}}", "controllers.task.concurrentSyncs"},
		{"mode", minimal + "mode: Druid", `mode: Unsupported value: "Druid": supported values: "Operator", "Executor"`},
		{"webhook in another mode", minimal + "server: {webhookBindAddress: ':9443'}", "server.webhookBindAddress: Invalid value: \":9443\": only mode Executor has a webhook"},
		{"no webhook port", minimal + "mode: Executor\nserver: {webhookBindAddress: localhost}", "server.webhookBindAddress: Invalid value: \"localhost\": must be host:port"},
		{"version of TLS", minimal + "tls: {minVersion: VersionTLS11}", `tls.minVersion: Unsupported value: "VersionTLS11"`},
		{"insecure suite", minimal + "tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_RC4_128_SHA]}", `tls.cipherSuites[1]: Invalid value: "TLS_RSA_WITH_RC4_128_SHA"`},
		{"suite of TLS 1.3", minimal + "tls: {cipherSuites: [TLS_AES_128_GCM_SHA256]}", `tls.cipherSuites[0]: Invalid value`},
		{"suite twice", minimal + "tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}", "tls.cipherSuites[1]: Duplicate value"},
		{"suites that HTTP/2 refuses", minimal + "tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]}", "HTTP/2 needs"},
		{"suites with TLS 1.3 alone", minimal + "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}", "tls.cipherSuites: Forbidden: the suites of TLS 1.3 cannot be chosen"},
		{"log level", minimal + "logging: {level: loud}", `logging.level: Unsupported value: "loud": supported values: "debug", "info", "error"`},
		{"log format", minimal + "logging: {format: xml}", "logging.format: Unsupported value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := load(t, tc.content)
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// Every source may be joined unless some are listed, or none.
func TestJoinSources(t *testing.T) {
	for content, want := range map[string][]string{
		"": {"*"}, "joinSources: []": {}, "joinSources: [ns/*, 'ns/http://10.0.0.1:2379']": {"ns/*", "ns/http://10.0.0.1:2379"},
	} {
		config, err := load(t, minimal+content)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), content)
		NewWithT(t).Expect(config.JoinSources).To(Equal(want), content)
	}
}

func TestEndpointsCanBeSwitchedOff(t *testing.T) {
	g := NewWithT(t)
	_, err := load(t, minimal+`server: {metricsBindAddress: "0", pprofBindAddress: "127.0.0.1:6060"}`)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestFeatureGates(t *testing.T) {
	g := NewWithT(t)
	gates, err := NewFeatureGate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gates.Enabled(QuorumAwareUpdatesWithOnDelete)).To(BeFalse())

	gates, err = NewFeatureGate(map[string]bool{"QuorumAwareUpdatesWithOnDelete": true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gates.Enabled(QuorumAwareUpdatesWithOnDelete)).To(BeTrue())

	_, err = NewFeatureGate(map[string]bool{"QuorumAware": true})
	g.Expect(err).To(MatchError(ContainSubstring("unrecognized feature gate: QuorumAware")))
}
