// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var errNotDialed = errors.New("not dialed")

// dialing is a Dialer that is told what to connect to, and does not.
type dialing func(endpoint string)

func (d dialing) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	d(endpoint)
	return nil, errNotDialed
}

// What the configuration allows of other addresses reaches the connections of the observer and of tasks, and the check of specs.
func TestSourcesThatMayBeJoined(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://victim:2379"}}
	for sources, refused := range map[string]bool{"*": false, "ns/http://victim:2379": false, "other/*": true} {
		config := &configv1alpha1.OperatorConfiguration{Mode: configv1alpha1.ModeOperator, JoinSources: []string{sources}}
		dialed := 0
		dialer := dialing(func(string) { dialed++ })
		c, err := newComposition(config, Dependencies{Live: fake.NewClientBuilder().Build(), Clock: clock.RealClock{}, Dialer: dialer, Recorder: &events.FakeRecorder{}, Registerer: prometheus.NewRegistry()})
		g.Expect(err).NotTo(HaveOccurred())
		c.etcds().Source(t.Context(), etcd)
		_, err = c.memberReader().Credentials.Dial(t.Context(), dialer, etcd, "", "http://victim:2379")
		g.Expect(err).To(Or(MatchError(ContainSubstring("joinSources")), MatchError(errNotDialed)))
		g.Expect(dialed > 0).To(Equal(!refused), sources)
		g.Expect(c.etcds().Allowed(etcd) != nil).To(Equal(refused), sources)
	}
}

// An Etcd is refused that has the backups of an older one, by what the cache has.
func TestEtcdsWithTheSameBackups(t *testing.T) {
	g := NewWithT(t)
	with := func(name string) *v1alpha1.Etcd {
		e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "backups", Prefix: "ns/both", SecretRef: &v1alpha1.SecretReference{Name: "s"}}}
		return e
	}
	c, err := newComposition(&configv1alpha1.OperatorConfiguration{Mode: configv1alpha1.ModeOperator}, Dependencies{
		Client: apitest.API(with("a"), with("b")), Live: fake.NewClientBuilder().Build(), Clock: clock.RealClock{}, Recorder: &events.FakeRecorder{}, Registerer: prometheus.NewRegistry(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.etcds().Allowed(with("a"))).To(Succeed())
	g.Expect(c.etcds().Allowed(with("b"))).To(MatchError(ContainSubstring("Etcd a, which is older")))
}

// The configuration reaches the metrics, the agents, and the connections to members.
func TestLimitsOfTLS(t *testing.T) {
	g := NewWithT(t)
	_, key, err := ed25519.GenerateKey(nil)
	g.Expect(err).NotTo(HaveOccurred())
	suite := tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	for _, tc := range []struct {
		limits    configv1alpha1.TLS
		version   uint16
		suites    []uint16
		published uint16
	}{
		{configv1alpha1.TLS{}, tls.VersionTLS12, nil, 0},
		{configv1alpha1.TLS{CipherSuites: []string{tls.CipherSuiteName(suite)}}, tls.VersionTLS12, []uint16{suite}, 0},
		{configv1alpha1.TLS{MinVersion: configv1alpha1.VersionTLS13}, tls.VersionTLS13, nil, tls.VersionTLS13},
	} {
		config := &configv1alpha1.OperatorConfiguration{Mode: configv1alpha1.ModeOperator, TLS: tc.limits}
		c, err := newComposition(config, Dependencies{Live: fake.NewClientBuilder().Build(), Clock: clock.RealClock{}, SigningKey: key, Recorder: &events.FakeRecorder{}, Registerer: prometheus.NewRegistry()})
		g.Expect(err).NotTo(HaveOccurred())
		var metrics, members tls.Config
		for _, set := range metricsOptions(config.Server, config.TLS).TLSOpts {
			set(&metrics)
		}
		c.credentials.Limits(&members)
		for _, got := range []*tls.Config{&metrics, &members, c.agents.limited(&tls.Config{})} {
			g.Expect(got.MinVersion).To(Equal(tc.version))
			g.Expect(got.CipherSuites).To(Equal(tc.suites))
		}
		trust := c.agents.trust(&v1alpha1.Etcd{})
		g.Expect(trust.TLSMinVersion).To(Equal(tc.published))
		g.Expect(trust.TLSCipherSuites).To(Equal(tc.suites))
		g.Expect(c.etcds().TLS).To(Equal(tc.limits))
	}
}
