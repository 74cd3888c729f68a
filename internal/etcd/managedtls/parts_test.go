// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A timer goes on across a gap that is just short enough, and has lasted at the very moment.
func TestTimer(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	all := timers{}
	g.Expect(all.with("x", "a", at)).To(BeFalse())
	lasts := at
	for lasts.Add(maxUnobserved).Sub(at) < propagation {
		lasts = lasts.Add(maxUnobserved)
		g.Expect(all.with("x", "a", lasts)).To(BeFalse())
	}
	g.Expect(all.with("x", "a", at.Add(propagation-time.Nanosecond))).To(BeFalse())
	g.Expect(all.with("x", "a", at.Add(propagation))).To(BeTrue())
	g.Expect(all.lasted("x")).To(BeTrue())
	g.Expect(all.lasted("y")).To(BeFalse(), "another name")
	g.Expect(all.with("x", "a", at.Add(propagation+maxUnobserved+time.Nanosecond))).To(BeFalse(), "a gap")
	for now := at; now.Sub(at) <= propagation; now = now.Add(maxUnobserved) {
		g.Expect(all.with("unknown", "", now)).To(BeFalse(), "what is unknown has not lasted")
	}
}

// By its fingerprint a timer sees that certificates were replaced.
func TestFingerprint(t *testing.T) {
	g := NewWithT(t)
	a, b := &x509.Certificate{Raw: []byte("a")}, &x509.Certificate{Raw: []byte("b")}
	g.Expect(fingerprint()).To(BeEmpty())
	g.Expect(fingerprint(a)).NotTo(BeEmpty())
	g.Expect(fingerprint(a)).NotTo(Equal(fingerprint(b)))
	g.Expect(fingerprint(a, b)).NotTo(Equal(fingerprint(a)))
	g.Expect(fingerprint(a, b)).To(Equal(fingerprint(a, b)))
	of := func(c *x509.Certificate) *pki.Leaf { return &pki.Leaf{Pair: pki.Pair{Certificate: c}} }
	g.Expect(leaves(pki.State{Leaves: map[string]*pki.Leaf{"z": of(a), "b": of(b)}})).To(Equal([]*x509.Certificate{b, a}))
}

func TestEveryMemberTrusts(t *testing.T) {
	trusting := func(n int, change func(*cluster.Snapshot)) *cluster.Snapshot {
		s := clustertest.Healthy(n)
		for i := range s.Ordinals {
			s.Ordinals[i].Pod.Authorities = "CAs"
		}
		change(s)
		return s
	}
	for name, tc := range map[string]struct {
		snapshot    *cluster.Snapshot
		authorities string
		want        bool
	}{
		"all do":                  {trusting(3, func(*cluster.Snapshot) {}), "CAs", true},
		"it is not known which":   {trusting(3, func(s *cluster.Snapshot) { s.Ordinals[0].Pod.Authorities = "" }), "", false},
		"nothing was observed":    {nil, "CAs", false},
		"a surplus pod is left":   {trusting(3, func(s *cluster.Snapshot) { s.Surplus = []string{"main-3"} }), "CAs", false},
		"one has others":          {trusting(3, func(s *cluster.Snapshot) { s.Ordinals[2].Pod.Authorities = "others" }), "CAs", false},
		"one is away":             {trusting(3, func(s *cluster.Snapshot) { clustertest.Away(s, 1, v1alpha1.ClassMissing, "") }), "CAs", false},
		"a voter is elsewhere":    {trusting(3, func(s *cluster.Snapshot) { s.Cluster.Voters[0].Ordinal = -1 }), "CAs", false},
		"one is a learner":        {trusting(3, func(s *cluster.Snapshot) { s.Cluster.Voters = s.Cluster.Voters[:2] }), "CAs", false},
		"there are no members":    {clustertest.Healthy(0), "CAs", true},
		"none, and a pod is left": {trusting(0, func(s *cluster.Snapshot) { s.Surplus = []string{"main-0"} }), "CAs", false},
		"one, and no voters":      {trusting(1, func(s *cluster.Snapshot) { s.Cluster.Voters = nil }), "CAs", false},
	} {
		if got := everyMemberTrusts(tc.snapshot, tc.authorities); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Another CA is made only where no member runs, and none has served with certificates.
func TestStoppedAndInUse(t *testing.T) {
	g := NewWithT(t)
	left, one := clustertest.Healthy(0), clustertest.Healthy(1)
	left.Surplus = []string{"main-0"}
	g.Expect(stopped(nil)).To(BeTrue())
	g.Expect(stopped(clustertest.Healthy(0))).To(BeTrue())
	g.Expect(stopped(left)).To(BeFalse())
	g.Expect(stopped(one)).To(BeFalse())

	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}, Spec: v1alpha1.EtcdSpec{ManagedTLS: &v1alpha1.ManagedTLS{}}}
	mounts := func(secret string) *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{}
		set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "other"}, {Name: "ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
		return set
	}
	uses, other := mounts(etcd.CASecret(v1alpha1.TLSPeers)), mounts("other")
	for _, served := range []bool{false, true} {
		if served {
			etcd.Status.ClusterID = "cafe"
		}
		g.Expect(inUse(etcd, uses, v1alpha1.TLSPeers)).To(Equal(served))
		g.Expect(inUse(etcd, other, v1alpha1.TLSPeers)).To(BeFalse())
		g.Expect(inUse(etcd, nil, v1alpha1.TLSPeers)).To(BeFalse(), "TLS was never ready")
		etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionTLSReady, Status: metav1.ConditionTrue})
		g.Expect(inUse(etcd, nil, v1alpha1.TLSPeers)).To(Equal(served))
		etcd.Status.Conditions = nil
	}
}

// What a Secret holds is what was put into it, and nothing of what it held before.
func TestSecretWithTheCAs(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	spec := pki.Spec{
		Owner: pki.Owner{Namespace: "ns", Name: "main", Connection: "peer"}, Durations: pki.Durations{Leaf: 90 * 24 * time.Hour, LeafRenewBefore: 30 * 24 * time.Hour, CA: 1000 * 24 * time.Hour},
		KeySecret: "key", BundleSecret: "ca",
	}
	perform := func(s pki.State, action pki.Action, now time.Time) pki.State {
		next, err := pki.Perform(spec, s, pki.Step{Action: action}, now)
		g.Expect(err).NotTo(HaveOccurred())
		return next
	}
	first := perform(pki.State{}, pki.MakeCA, at)
	renewing := perform(perform(first, pki.Trust, at), pki.RenewCA, at)
	promoted := perform(renewing, pki.Promote, at.Add(7*24*time.Hour))
	retired := perform(promoted, pki.Retire, at)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{}}
	for name, s := range map[string]pki.State{"first": first, "renewing": renewing, "promoted": promoted, "retired": retired} {
		g.Expect(encode(secret, spec, s)).To(Succeed())
		got, err := decodeAuthority(secret, false)
		g.Expect(err).NotTo(HaveOccurred(), name)
		want := s.Authority
		g.Expect(got.Signer.Certificate.Equal(want.Signer.Certificate)).To(BeTrue(), name)
		g.Expect(got.Signer.Key).NotTo(BeNil())
		g.Expect(got.Next != nil).To(Equal(want.Next != nil), name)
		g.Expect(got.Previous.Equal(want.Previous)).To(BeTrue(), name)
		g.Expect(got.Retired.Equal(want.Retired)).To(BeTrue(), name)
		g.Expect(got.NextFrom).To(BeTemporally("==", want.NextFrom), name)
		g.Expect(got.PreviousUntil).To(BeTemporally("==", want.PreviousUntil), name)
		if want.Next != nil {
			g.Expect(got.Next.Certificate.Equal(want.Next.Certificate)).To(BeTrue(), name)
			g.Expect(got.Next.Key).NotTo(BeNil(), name)
		}
	}

	g.Expect(encode(secret, spec, renewing)).To(Succeed())
	g.Expect(encode(secret, spec, promoted)).To(Succeed())
	g.Expect(secret.Annotations).NotTo(HaveKey(v1alpha1.AnnotationNextCASignsFrom))
	g.Expect(encode(secret, spec, retired)).To(Succeed())
	g.Expect(secret.Annotations).NotTo(HaveKey(v1alpha1.AnnotationTrustedUntil))

	g.Expect(encode(secret, spec, promoted)).To(Succeed())
	delete(secret.Annotations, v1alpha1.AnnotationTrustedUntil)
	got, err := decodeAuthority(secret, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.PreviousUntil).To(Equal(got.Previous.NotAfter), "without the annotation it is trusted until it expires")

	g.Expect(encode(secret, spec, renewing)).To(Succeed())
	delete(secret.Data, keyNextPrivate)
	_, err = decodeAuthority(secret, false)
	g.Expect(err).To(MatchError(ContainSubstring("next.crt or next.key: there is no private key")))
	_, err = decodeAuthority(secret, true)
	g.Expect(err).NotTo(HaveOccurred(), "an issuer keeps its keys")
	for _, key := range []string{keyCertificate, keyNext, keyPrevious, keyRetired} {
		broken := secret.DeepCopy()
		broken.Data[key] = []byte("x")
		_, err = decodeAuthority(broken, true)
		g.Expect(err).To(MatchError(ContainSubstring(key)), key)
		states := secrets{live: map[string]*corev1.Secret{"key": broken}}.state(spec)
		g.Expect(states.Broken).To(HaveKey("key"))
		g.Expect(states.Authority).To(BeNil())
	}
	states := secrets{live: map[string]*corev1.Secret{"ca": {Data: map[string][]byte{keyCAs: []byte("x")}}}}.state(spec)
	g.Expect(states.Broken).To(HaveKey("ca"))
}

// each has the Secrets be as they should, with each request failing once.
func (w *world) each(t *testing.T) {
	t.Helper()
	etcd := &v1alpha1.Etcd{}
	w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(w.etcd), etcd)).To(Succeed())
	timers := w.manager.timers.Of(w.etcd)
	apitest.EachRequestFails(t, w.client, func(api client.WithWatch) error {
		m := &Manager{Access: state.Access{Client: api, API: api, Observer: apitest.Members(func() *cluster.Snapshot { return w.live }), Clock: w.clock}}
		if timers != nil {
			m.timers.Set(w.etcd, timers)
		}
		result, err := m.Ensure(context.Background(), Request{State: &state.State{Etcd: w.etcd, Snapshot: w.snapshot}, Authorities: w.authorities})
		if err != nil {
			w.Expect(result.RenewalBegun).To(BeFalse())
			w.Expect(m.looks.Of(w.etcd).at).To(BeZero(), "it is looked again at once")
		}
		return err
	})
}

// Whatever request fails, the error comes back, and all is tried again: for a new cluster, a renewal, and both of its ends.
func TestRequestsFail(t *testing.T) {
	w := newWorld(t)
	w.each(t)
	w.Expect(w.ensure().Wrote).To(BeTrue())
	w.Expect(w.ensure().Wrote).To(BeFalse())
	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.each(t)
	result := w.ensure()
	w.Expect(result.RenewalBegun).To(BeTrue())
	w.Expect(result.Remarks).To(ContainElement(ContainSubstring("The CA in Secret main-peer-ca-key is being renewed: the new CA signs nothing until")))
	w.etcd.Annotations = nil
	w.trusting("both")
	w.live = w.snapshot
	w.forward(7 * 24 * time.Hour)
	for range 5 {
		w.ensure()
		w.forward(time.Minute)
	}
	w.each(t)
	w.Expect(w.reasons(w.ensure())).To(ContainElement(v1alpha1.ReasonCARenewed))
	w.manager.Forget(client.ObjectKeyFromObject(w.etcd))
	w.Expect(w.manager.timers.Of(w.etcd)).To(BeNil())
	w.Expect(w.manager.looks.Of(w.etcd)).To(BeZero())
	w.etcd.Spec.ManagedTLS = nil
	w.Expect(w.ensure()).To(BeZero())
}

// What a person has to fix is looked at again after seconds, and remembered until then.
func TestProblemIsRemembered(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-peer-tls"}}
	w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	good := secret.DeepCopy()
	secret.Data = map[string][]byte{keyCertificate: []byte("x")}
	w.Expect(w.client.Update(t.Context(), secret)).To(Succeed())
	w.forward(recheck)
	w.Expect(w.ensure().Problem).To(MatchError(ContainSubstring("main-peer-tls cannot be used")))
	good.ResourceVersion = ""
	w.Expect(w.client.Update(t.Context(), good)).To(Succeed())
	w.forward(recheckBroken - time.Second)
	w.Expect(w.ensure().Problem).To(HaveOccurred(), "it was looked at a moment ago")
	w.forward(time.Second)
	w.Expect(w.ensure().Problem).NotTo(HaveOccurred())
	w.etcd.Generation++
	w.Expect(w.client.Delete(t.Context(), good)).To(Succeed())
	w.Expect(w.ensure().Wrote).To(BeTrue(), "another spec is looked at at once")
}

// The Secrets of a new Etcd: their kinds, labels and owner, and for which hosts and uses their certificates are.
func TestSecretsOfANewEtcd(t *testing.T) {
	w := newWorld(t)
	w.etcd.Spec.ManagedTLS.ServerDNSNames = []string{"etcd.example.com"}
	w.ensure()
	get := func(name string) *corev1.Secret {
		secret := &corev1.Secret{}
		w.Expect(w.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, secret)).To(Succeed())
		w.Expect(secret.Labels).To(Equal(map[string]string{
			v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main", v1alpha1.LabelComponent: v1alpha1.ComponentCertificates, v1alpha1.LabelName: name,
		}))
		w.Expect(metav1.IsControlledBy(secret, w.etcd)).To(BeTrue())
		return secret
	}
	both, client := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for name, tc := range map[string]struct {
		hosts   []string
		not     string
		usages  []x509.ExtKeyUsage
		withCAs bool
	}{
		"main-server-tls":   {[]string{"*.main-peer.ns.svc", "main-client", "main-client.ns", "main-client.ns.svc.cluster.local", "etcd.example.com"}, "", both, false},
		"main-peer-tls":     {[]string{"*.main-peer.ns.svc", "*.main-peer.ns.svc.cluster.local"}, "main-client", both, false},
		"main-agent-tls":    {[]string{"*.main-peer.ns.svc", "main-client"}, "etcd.example.com", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, false},
		"main-operator-tls": {nil, "main-client", client, false},
		"main-client-tls":   {nil, "main-client", client, true},
	} {
		secret := get(name)
		w.Expect(secret.Type).To(Equal(corev1.SecretTypeTLS), name)
		leaf, err := decodeLeaf(secret)
		w.Expect(err).NotTo(HaveOccurred(), name)
		w.Expect(leaf.Certificate.DNSNames).To(ContainElements(tc.hosts), name)
		w.Expect(leaf.Certificate.DNSNames).NotTo(ContainElement(tc.not), name)
		w.Expect(leaf.Certificate.ExtKeyUsage).To(Equal(tc.usages), name)
		_, has := secret.Data[keyCAs]
		w.Expect(has).To(Equal(tc.withCAs), name)
	}
	for _, name := range []string{"main-peer-ca", "main-peer-ca-key", "main-client-ca", "main-client-ca-key"} {
		w.Expect(get(name).Type).To(Equal(corev1.SecretTypeOpaque), name)
	}
}

// What is found is said: problems with their Secrets, warnings, and when to look again.
func TestConclude(t *testing.T) {
	g, at := NewWithT(t), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	s := &session{}
	s.conclude(pki.Spec{KeySecret: "key"}, pki.Decision{At: at.Add(time.Hour), Problems: []pki.Problem{{Secret: "s", What: "is broken"}}, Warnings: []pki.Problem{{Secret: "ca", What: "has another CA"}}}, false)
	s.conclude(pki.Spec{KeySecret: "key"}, pki.Decision{At: at, Waiting: "for members"}, false)
	s.conclude(pki.Spec{}, pki.Decision{At: at.Add(time.Minute)}, false)
	s.conclude(pki.Spec{}, pki.Decision{}, false)
	g.Expect(s.next).To(Equal(at))
	g.Expect(s.problems).To(ConsistOf(MatchError(ContainSubstring("s is broken"))))
	g.Expect(s.result.Remarks).To(Equal([]string{"Secret ca has another CA.", "The CA in Secret key is being renewed: for members."}))
}

// Members that read any CA when they start have to have started with it.
func TestWithoutRollouts(t *testing.T) {
	g := NewWithT(t)
	of := func(change func(*v1alpha1.Etcd)) bool {
		etcd := &v1alpha1.Etcd{}
		change(etcd)
		return (&session{Request: Request{State: &state.State{Etcd: etcd}}}).withoutRollouts()
	}
	g.Expect(of(func(*v1alpha1.Etcd) {})).To(BeTrue())
	g.Expect(of(func(e *v1alpha1.Etcd) { e.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{} })).To(BeFalse())
	g.Expect(of(func(e *v1alpha1.Etcd) { e.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{} })).To(BeFalse())
}

// A CA signs, and one is retired, only while both the CAs and the certificates have lasted.
func TestLasting(t *testing.T) {
	w := newWorld(t)
	ca, other := &x509.Certificate{Raw: []byte("ca")}, &x509.Certificate{Raw: []byte("other")}
	leaf := func(c *x509.Certificate) map[string]*pki.Leaf {
		return map[string]*pki.Leaf{"s": {Pair: pki.Pair{Certificate: c}}}
	}
	look := func(current pki.State) (trusted, loaded bool) {
		w.forward(time.Minute)
		q := Request{State: &state.State{Etcd: w.etcd, Snapshot: w.snapshot}, Authorities: w.authorities}
		w.manager.observe(q, w.clock.Now())
		return (&session{Manager: w.manager, Request: q, now: w.clock.Now()}).lasting(v1alpha1.TLSPeers, current)
	}
	for range 6 {
		look(pki.State{Bundle: []*x509.Certificate{ca}, Leaves: leaf(ca)})
	}
	trusted, loaded := look(pki.State{Bundle: []*x509.Certificate{ca}, Leaves: leaf(ca)})
	w.Expect([]bool{trusted, loaded}).To(Equal([]bool{true, true}))
	trusted, loaded = look(pki.State{Bundle: []*x509.Certificate{ca}, Leaves: leaf(other)})
	w.Expect([]bool{trusted, loaded}).To(Equal([]bool{true, false}), "a certificate is new")
	trusted, loaded = look(pki.State{Bundle: []*x509.Certificate{ca, other}, Leaves: leaf(ca)})
	w.Expect([]bool{trusted, loaded}).To(Equal([]bool{false, false}), "a CA is new")
}
