// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"context"
	gotls "crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// withPeers is an Etcd of three members with TLS between peers, of the Secrets ca and peer.
func withPeers() *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e", Generation: 1}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{TLSCASecretRef: v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "ca"}}}
	etcd.Spec.Etcd.PeerURLTLS.ServerTLSSecretRef.Name = "peer"
	return etcd
}

// secretsOf are good Secrets of an Etcd.
func secretsOf(t *testing.T, etcd *v1alpha1.Etcd) []client.Object {
	t.Helper()
	ca, err := certs.NewCA("ca")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue(etcd.MemberHosts())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}, Data: map[string][]byte{"ca.crt": ca.PEM}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "peer"}, Data: map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key}},
	}
}

func moverOf(api client.WithWatch, now time.Time) *Mover {
	access := state.Access{Client: api, API: api, Clock: clocktesting.NewFakePassiveClock(now)}
	return &Mover{Access: access, Managed: &managedtls.Manager{Access: access}}
}

// setAt is a StatefulSet whose template is at a stage and has CAs.
func setAt(stage component.PeerTLS, authorities string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	set.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationPeerTLS: string(stage), v1alpha1.AnnotationCAChecksum: authorities}
	return set
}

// The template goes one stage further once the Secrets can be used, and is changed for TLS alone only if something of it differs.
func TestPlan(t *testing.T) {
	etcd := withPeers()
	good := secretsOf(t, etcd)
	mover := moverOf(apitest.API(good...), time.Now())
	first, err := mover.Plan(t.Context(), &state.State{Etcd: etcd}, false)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	current := first.Facts.Authorities
	for name, c := range map[string]struct {
		set     *appsv1.StatefulSet
		members *cluster.Snapshot
		secrets []client.Object
		stage   component.PeerTLS
		due     bool
		problem string
	}{
		"a new cluster":        {nil, nil, good, on, false, ""},
		"it begins":            {setAt(off, current), peersAt(3, off, "http"), good, prepared, true, ""},
		"it waits":             {setAt(prepared, current), peersAt(3, prepared, "http"), good, prepared, false, ""},
		"it goes on":           {setAt(prepared, current), peersAt(3, prepared, "http", "https"), good, on, true, ""},
		"done":                 {setAt(on, current), peersAt(3, on, "https"), good, on, false, ""},
		"with other CAs":       {setAt(on, "others"), peersAt(3, on, "https"), good, on, true, ""},
		"a Secret is missing":  {setAt(off, current), peersAt(3, off, "http"), good[:1], off, false, "Secret peer does not exist"},
		"no CAs to start with": {nil, nil, nil, on, false, "Secret ca does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p, err := moverOf(apitest.API(c.secrets...), time.Now()).Plan(t.Context(), &state.State{Etcd: etcd, StatefulSet: c.set, Snapshot: c.members}, false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Stage).To(Equal(c.stage))
			g.Expect(p.Due).To(Equal(c.due))
			g.Expect(p.Arrived(etcd)).To(Equal(c.problem == "" && c.stage == on))
			if c.problem == "" {
				g.Expect(p.Problem).NotTo(HaveOccurred())
				g.Expect(p.Facts.Authorities).To(Equal(current))
			} else {
				g.Expect(p.Problem).To(MatchError(ContainSubstring(c.problem)))
			}
		})
	}
}

// Without TLS between peers there is no way to go, whatever the members do.
func TestPlanOfTLSForClientsAlone(t *testing.T) {
	g := NewWithT(t)
	etcd := withPeers()
	secrets := apitest.API(secretsOf(t, etcd)...)
	peer := etcd.Spec.Etcd.PeerURLTLS
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{TLSCASecretRef: peer.TLSCASecretRef, ServerTLSSecretRef: peer.ServerTLSSecretRef, ClientTLSSecretRef: peer.ServerTLSSecretRef}
	etcd.Spec.Etcd.PeerURLTLS = nil
	p, err := moverOf(secrets, time.Now()).Plan(t.Context(), &state.State{Etcd: etcd, StatefulSet: setAt(off, ""), Snapshot: peersAt(3, off, "http")}, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Problem).NotTo(HaveOccurred())
	g.Expect(p.Stage).To(Equal(off))
	g.Expect(p.Due).To(BeTrue(), "of the CAs")
	g.Expect(p.Arrived(etcd)).To(BeTrue())
}

func TestWithoutTLS(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	g.Expect(Wanted(etcd)).To(BeFalse())
	g.Expect((&Mover{}).Plan(t.Context(), &state.State{Etcd: etcd}, false)).To(Equal(Plan{}))
	g.Expect(Plan{}.Arrived(etcd)).To(BeTrue())
	g.Expect(Plan{Problem: errors.New("no")}.Arrived(etcd)).To(BeFalse())
	for _, change := range []func(*v1alpha1.Etcd){
		func(e *v1alpha1.Etcd) { e.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{} },
		func(e *v1alpha1.Etcd) { e.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{} },
		func(e *v1alpha1.Etcd) { e.Spec.Backup = &v1alpha1.BackupSpec{TLS: &v1alpha1.BackupTLS{}} },
	} {
		with := etcd.DeepCopy()
		change(with)
		g.Expect(Wanted(with)).To(BeTrue())
	}
}

// If the StatefulSet is gone, the ConfigMap says how far its members had come: with another stage they would not find each other.
func TestStageWithoutAStatefulSet(t *testing.T) {
	etcd := withPeers()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: etcd.ConfigMapName(""), Annotations: map[string]string{v1alpha1.AnnotationPeerTLS: string(prepared)}}}
	served := etcd.DeepCopy()
	served.Status.ClusterID = "cafe"
	without := etcd.DeepCopy()
	without.Spec.Etcd.PeerURLTLS = nil
	for name, c := range map[string]struct {
		etcd    *v1alpha1.Etcd
		objects []client.Object
		want    component.PeerTLS
	}{
		"it has served":       {served, []client.Object{config}, prepared},
		"nothing is left":     {served, nil, on},
		"it has never served": {etcd, []client.Object{config}, on},
		"it has no TLS":       {without, []client.Object{config}, off},
	} {
		g := NewWithT(t)
		g.Expect(moverOf(apitest.API(c.objects...), time.Now()).stage(t.Context(), &state.State{Etcd: c.etcd})).To(Equal(c.want), name)
	}
	secrets := apitest.API(append(secretsOf(t, etcd), config)...)
	apitest.EachRequestFails(t, secrets, func(api client.WithWatch) error {
		_, err := moverOf(api, time.Now()).Plan(t.Context(), &state.State{Etcd: served}, false)
		return err
	})
}

// Problems of managed TLS say more than that a Secret is missing. What was checked before they were written counts no more.
func TestPlanOfManagedTLS(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e", Generation: 1}, Spec: v1alpha1.EtcdSpec{Replicas: 1, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	s := &state.State{Etcd: etcd}
	api := apitest.API(etcd)
	mover := moverOf(api, time.Now())
	mover.checked.Set(etcd, check{at: mover.Clock.Now(), generation: 1, err: &certificates.Problem{Secret: "x", What: "is as it was"}})
	p, err := mover.Plan(t.Context(), s, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Problem).NotTo(HaveOccurred())
	g.Expect(p.Managed.Wrote).To(BeTrue())
	apitest.EachRequestFails(t, apitest.API(etcd), func(api client.WithWatch) error {
		_, err := moverOf(api, time.Now()).Plan(t.Context(), s, false)
		return err
	})
	mover.Forget(client.ObjectKeyFromObject(etcd))
	g.Expect(mover.checked.Of(etcd)).To(Equal(check{}))

	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: etcd.CASecret(v1alpha1.TLSClients), UID: "foreign"}}
	p, err = moverOf(apitest.API(etcd, foreign), time.Now()).Plan(t.Context(), s, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Problem).To(Equal(p.Managed.Problem))
	g.Expect(p.Managed.Foreign).NotTo(BeEmpty())
}

// Secrets that can be used are, whatever keeps them from being renewed. Foreign ones are a problem though they can be used.
func TestUsableSecretsOfManagedTLS(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e", Generation: 1}, Spec: v1alpha1.EtcdSpec{Replicas: 1, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	s, api, now := &state.State{Etcd: etcd}, apitest.API(etcd), time.Now()
	_, err := moverOf(api, now).Plan(t.Context(), s, false)
	g.Expect(err).NotTo(HaveOccurred())

	forbidding := interceptor.NewClient(api, interceptor.Funcs{
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), errors.New("no right"))
		},
	})
	server := &corev1.Secret{}
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: etcd.ServerSecret(v1alpha1.TLSClients)}, server)).To(Succeed())
	block, _ := pem.Decode(server.Data[corev1.TLSCertKey])
	certificate, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	p, err := moverOf(forbidding, certificate.NotAfter.Add(-time.Minute)).Plan(t.Context(), s, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Managed.Problem).To(MatchError(ContainSubstring("no right")))
	g.Expect(p.Problem).NotTo(HaveOccurred(), "the members go on with the certificates that they have")

	server.OwnerReferences, server.Labels = nil, nil
	g.Expect(api.Update(t.Context(), server)).To(Succeed())
	p, err = moverOf(api, now).Plan(t.Context(), s, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Managed.Foreign).To(HaveLen(1))
	g.Expect(p.Problem).To(Equal(p.Managed.Problem))
}

// What was written is said, also where what follows fails: its events are not lost, and it is read again.
func TestWhatWasWrittenIsSaid(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e", Generation: 1}, Spec: v1alpha1.EtcdSpec{Replicas: 1, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	etcd.Status.ClusterID = "cafe"
	for n := 1; ; n++ {
		requests, wrote := 0, false
		fails := func() error {
			if requests++; requests == n {
				return errors.New("no answer")
			}
			return nil
		}
		api := interceptor.NewClient(apitest.API(etcd), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if err := fails(); err != nil {
					return err
				}
				return c.Get(ctx, key, o, options...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if err := fails(); err != nil {
					return err
				}
				wrote = true
				return c.Create(ctx, o, options...)
			},
		})
		p, err := moverOf(api, time.Now()).Plan(t.Context(), &state.State{Etcd: etcd}, false)
		g.Expect(p.Managed.Wrote).To(Equal(wrote), "request %d failed: %v", n, err)
		if requests < n {
			return
		}
	}
}

// Good Secrets are read again after a while, after a change of the spec, and when a person asks for it.
func TestWhenGoodSecretsAreReadAgain(t *testing.T) {
	g := NewWithT(t)
	etcd := withPeers()
	reads := 0
	api := interceptor.NewClient(apitest.API(secretsOf(t, etcd)...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, options...)
		},
	})
	now := time.Now()
	clock := clocktesting.NewFakePassiveClock(now)
	m := &Mover{Access: state.Access{Client: api, API: api, Clock: clock}}
	check := func(want int, why string) {
		t.Helper()
		facts, err := m.checkSecrets(t.Context(), etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(facts.Authorities).NotTo(BeEmpty())
		g.Expect(reads).To(Equal(want), why)
		reads = 0
	}
	check(2, "the first time")
	clock.SetTime(now.Add(recheckSecrets - 1))
	check(0, "just now")
	clock.SetTime(now.Add(recheckSecrets))
	check(2, "a while ago")
	etcd.Generation++
	check(2, "the spec has changed")
	check(0, "it has not")
	etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationReconcile}
	check(2, "it is asked for")
}

// peers note how the member list is changed.
type peers struct {
	etcdclient.Client
	refuses error
	at      string
	calls   []string
	closed  bool
	bounded bool
}

func (p *peers) Dial(endpoint string, _ *gotls.Config) (etcdclient.Client, error) {
	if p.at = endpoint; endpoint == "" {
		return nil, errors.New("no route")
	}
	return p, nil
}

func (p *peers) SetPeerURLs(ctx context.Context, id uint64, urls []string) error {
	_, p.bounded = ctx.Deadline()
	p.calls = append(p.calls, fmt.Sprintf("%d %s", id, strings.Join(urls, " ")))
	return p.refuses
}

func (p *peers) Close() error { p.closed = true; return nil }

// The leader is asked to list each member under its URLs, one after the other, until one is refused.
func TestListPeerURLs(t *testing.T) {
	led := func(change func(*cluster.Snapshot)) *cluster.Snapshot {
		s := peersAt(2, prepared, "http")
		s.Ordinals[0].Pod.Endpoint = "http://leader"
		change(s)
		return s
	}
	as := func(*cluster.Snapshot) {}
	both := []string{"1 http://m-0:2380 https://m-0:2380", "2 http://m-1:2380 https://m-1:2380"}
	for name, c := range map[string]struct {
		s    *cluster.Snapshot
		plan Plan
		fake peers
		want []string
		err  string
	}{
		"both are listed":           {led(as), Plan{Stage: prepared}, peers{}, both, ""},
		"the first is refused":      {led(as), Plan{Stage: prepared}, peers{refuses: errors.New("no quorum")}, both[:1], "no quorum"},
		"the leader is unreachable": {led(func(s *cluster.Snapshot) { s.Ordinals[0].Pod.Endpoint = "" }), Plan{Stage: prepared}, peers{}, nil, "connecting to the leader etcd-main-0: no route"},
		"no leader is known":        {led(func(s *cluster.Snapshot) { s.Ordinals[0].Role = v1alpha1.RoleFollower }), Plan{Stage: prepared}, peers{}, nil, ""},
		"nothing is to be changed":  {led(as), Plan{Stage: off}, peers{}, nil, ""},
		"a Secret is broken":        {led(as), Plan{Stage: prepared, Problem: errors.New("x")}, peers{}, nil, ""},
		"there are no members":      {nil, Plan{Stage: prepared}, peers{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := &Mover{Dialer: &c.fake}
			err := m.ListPeerURLs(t.Context(), &state.State{Etcd: withPeers(), Snapshot: c.s}, c.plan)
			g.Expect(c.fake.calls).To(Equal(c.want))
			g.Expect(c.fake.closed).To(Equal(len(c.want) > 0))
			g.Expect(c.fake.bounded).To(Equal(len(c.want) > 0))
			if c.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.err)))
			g.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrPeerURLs))
		})
	}
	NewWithT(t).Expect(wantedURLs(prepared, []string{":", "http://a:1"})).To(Equal([]string{"http://a:1", "https://a:1"}))
}

// The condition is true once members use TLS as the spec says, and says until then how far they are.
func TestCondition(t *testing.T) {
	both := withPeers()
	both.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{}
	peersOnly := withPeers()
	clients := withPeers()
	clients.Spec.Etcd.ClientURLTLS, clients.Spec.Etcd.PeerURLTLS = &v1alpha1.ClientURLTLS{}, nil
	listening := func(s *cluster.Snapshot, n int) *cluster.Snapshot {
		for i := range s.Ordinals {
			s.Ordinals[i].Pod.Endpoint = "http://a"
			if i < n {
				s.Ordinals[i].Pod.Endpoint = "https://a"
			}
		}
		return s
	}
	away := with(peersAt(3, prepared, "http"), func(s *cluster.Snapshot) { clustertest.Away(s, 2, v1alpha1.ClassDead, "") })
	mixed := with(peersAt(3, on, "https", "http"), func(s *cluster.Snapshot) { s.Ordinals[0].Pod.PeerTLS = string(prepared) })
	facts := certificates.Facts{ExpiresIn: "peer", Expires: time.Unix(1e9, 0), Remarks: []string{"Look."}}
	for name, c := range map[string]struct {
		plan   Plan
		etcd   *v1alpha1.Etcd
		s      *cluster.Snapshot
		reason string
		says   string
	}{
		"a problem":                {Plan{Problem: errors.New("a\nb"), Managed: managedtls.Result{Problem: errors.New("c")}}, both, nil, v1alpha1.ReasonSecretInvalid, "a; b. The spec is not applied"},
		"a renewal":                {Plan{Managed: managedtls.Result{Problem: errors.New("a\nb")}}, both, nil, v1alpha1.ReasonCertificatesNotRenewed, "a; b. Until"},
		"nothing yet":              {Plan{Stage: on}, both, nil, v1alpha1.ReasonCertificatesRollout, "no StatefulSet"},
		"hibernated":               {Plan{Stage: on}, both, clustertest.Healthy(0), v1alpha1.ReasonHibernated, "no replicas"},
		"first rollout":            {Plan{Stage: prepared}, peersOnly, away, v1alpha1.ReasonCertificatesRollout, "2 of 3 members have the certificates"},
		"before it":                {Plan{Stage: prepared}, peersOnly, peersAt(3, off, "http"), v1alpha1.ReasonCertificatesRollout, "0 of 3 members"},
		"between":                  {Plan{Stage: prepared}, peersOnly, peersAt(3, prepared, "http"), v1alpha1.ReasonPeerURLsAdded, "both its peer URLs"},
		"second rollout":           {Plan{Stage: on}, peersOnly, mixed, v1alpha1.ReasonPeerTLSRollout, "2 of 3 members listen for peers"},
		"after it":                 {Plan{Stage: on}, peersOnly, peersAt(3, on, "https", "http"), v1alpha1.ReasonPeerURLsRemoved, "about to be removed"},
		"a single member after it": {Plan{Stage: on}, peersOnly, peersAt(1, on, "http"), v1alpha1.ReasonPeerURLsRemoved, "about to be removed"},
		"clients are not done":     {Plan{Stage: on}, both, listening(peersAt(3, on, "https"), 2), v1alpha1.ReasonCertificatesRollout, "2 of 3 members listen for clients"},
		"clients alone are not":    {Plan{Stage: off}, clients, listening(peersAt(3, off, "http"), 1), v1alpha1.ReasonCertificatesRollout, "1 of 3 members listen for clients"},
		"clients without are fine": {Plan{Stage: on, Facts: facts}, peersOnly, listening(peersAt(3, on, "https"), 0), v1alpha1.ReasonTLSInUse, "Secret peer"},
		"clients alone":            {Plan{Stage: off, Facts: facts}, clients, listening(peersAt(3, off, "http"), 3), v1alpha1.ReasonTLSInUse, "Secret peer"},
		"a CA was replaced": {Plan{Stage: on, Facts: certificates.Facts{Authorities: "new"}}, peersOnly, with(listening(peersAt(3, on, "https"), 0), func(s *cluster.Snapshot) {
			s.Ordinals[0].Pod.Authorities, s.Ordinals[1].Pod.Authorities = "old", "new"
		}), v1alpha1.ReasonTLSInUse, "1 of 3 members were started with other CAs"},
		"it was replaced with the certificates": {Plan{Stage: on, Facts: certificates.Facts{Authorities: "new"}}, both, with(listening(peersAt(3, on, "https"), 3), func(s *cluster.Snapshot) {
			for i := range s.Ordinals {
				s.Ordinals[i].Pod.Authorities = "old"
				clustertest.Away(s, i, v1alpha1.ClassUnready, "")
			}
		}), v1alpha1.ReasonPeerTLSRollout, "0 of 3 members listen for peers with TLS and participate. 3 of 3 members were started with other CAs"},
		"all, and what to look at": {Plan{Stage: on, Facts: facts, Managed: managedtls.Result{Remarks: []string{"Renewing."}}}, both, listening(peersAt(3, on, "https"), 3), v1alpha1.ReasonTLSInUse, "Secret peer, at 2001-09-09T01:46:40Z. Look. Renewing."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := c.plan.Condition(c.etcd, c.s)
			g.Expect(got.Type).To(Equal(v1alpha1.ConditionTLSReady))
			g.Expect(got.Reason).To(Equal(c.reason), got.Message)
			g.Expect(got.Message).To(ContainSubstring(c.says))
			ready := c.reason == v1alpha1.ReasonTLSInUse || c.reason == v1alpha1.ReasonHibernated
			g.Expect(got.Status == metav1.ConditionTrue).To(Equal(ready))
		})
	}
}
