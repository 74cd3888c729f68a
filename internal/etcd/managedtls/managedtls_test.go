// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package managedtls

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// world is an Etcd with managed TLS, and healthy members.
type world struct {
	*WithT
	client   client.WithWatch
	clock    *clocktesting.FakePassiveClock
	manager  *Manager
	etcd     *v1alpha1.Etcd
	snapshot *cluster.Snapshot
	// live is what is observed of the members again.
	live        *cluster.Snapshot
	authorities string
}

func (w *world) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return w.live, nil
}

func newWorld(t *testing.T) *world {
	w := &world{WithT: NewWithT(t), clock: clocktesting.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))}
	w.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3, ManagedTLS: &v1alpha1.ManagedTLS{}}}
	w.client = apitest.API(w.etcd)
	w.trusting("CAs")
	w.live = w.snapshot
	w.with(interceptor.Funcs{})
	return w
}

// with gives the manager a client that does something else.
func (w *world) with(funcs interceptor.Funcs) {
	c := interceptor.NewClient(w.client, funcs)
	w.manager = &Manager{Access: state.Access{Client: c, API: c, Observer: w, Clock: w.clock}}
}

// trusting has every member run with these CAs.
func (w *world) trusting(authorities string) {
	w.authorities, w.snapshot = authorities, clustertest.Healthy(3)
	for i := range w.snapshot.Ordinals {
		w.snapshot.Ordinals[i].Pod.Authorities = authorities
	}
}

func (w *world) ensure() Result {
	result, err := w.manager.Ensure(context.Background(), Request{State: &state.State{Etcd: w.etcd, Snapshot: w.snapshot}, Authorities: w.authorities})
	w.Expect(err).NotTo(HaveOccurred())
	return result
}

func (w *world) forward(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// renewing begins the renewal of the CAs.
func (w *world) renewing() {
	w.ensure()
	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.Expect(w.ensure().RenewalBegun).To(BeTrue())
	w.etcd.Annotations = nil
}

func (w *world) reasons(r Result) (reasons []string) {
	for _, e := range r.Events {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

// The next CA signs although no member trusts it once the one before it has expired, by the clock of the API server: that of the operator may
// be years ahead.
func TestAnExpiredCA(t *testing.T) {
	w := newWorld(t)
	server := w.clock.Now()
	w.with(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if _, asksForTheTime := o.(*authenticationv1.SelfSubjectReview); asksForTheTime {
			o.SetCreationTimestamp(metav1.NewTime(server))
			return nil
		}
		return c.Create(ctx, o, options...)
	}})
	w.ensure()
	w.forward(1000 * 24 * time.Hour)
	w.authorities = "with the next one"
	w.Expect(w.reasons(w.ensure())).To(ContainElement(v1alpha1.ReasonCARenewalStarted))
	w.forward(200 * 24 * time.Hour)
	result := w.ensure()
	w.Expect(w.reasons(result)).NotTo(ContainElement(v1alpha1.ReasonCARenewed))
	w.Expect(result.Problem).To(MatchError(ContainSubstring("not every member has started with the next one")))
	server = w.clock.Now()
	w.forward(time.Minute)
	w.Expect(w.reasons(w.ensure())).To(ContainElements(v1alpha1.ReasonCARenewed, v1alpha1.ReasonCertificateIssued))
}

// Without its right the operator says which one it needs.
func TestWithoutTheRight(t *testing.T) {
	w := newWorld(t)
	w.with(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
	}})
	result := w.ensure()
	w.Expect(result.Problem).To(MatchError(And(ContainSubstring("Secret main-client-ca-key cannot be written"), ContainSubstring("config/admission/managed_tls_role.yaml"))))
	_, isProblem := errors.AsType[*certificates.Problem](result.Problem)
	w.Expect(isProblem).To(BeTrue())
}

// A certificate that cannot be written, which comes before the renewal of its CA, keeps that from beginning.
func TestARenewalBehindWhatIsForbidden(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	secret := &corev1.Secret{}
	w.Expect(w.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-peer-tls"}, secret)).To(Succeed())
	w.Expect(w.client.Delete(t.Context(), secret)).To(Succeed())
	w.with(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
	}})
	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.Expect(w.ensure().Events).To(ContainElement(And(HaveField("Reason", v1alpha1.ReasonCARenewalIgnored), HaveField("Note", And(
		ContainSubstring("Secret main-peer-ca-key: its CA is not renewed by the request"), ContainSubstring("main-peer-tls cannot be written"))))))
}

// Only the connections that the Etcd names are managed, and a renewal that was asked for before there are CAs makes them once.
func TestWhatIsManaged(t *testing.T) {
	w := newWorld(t)
	w.etcd.Spec.ManagedTLS.Connections = []v1alpha1.TLSConnection{v1alpha1.TLSPeers}
	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.Expect(w.reasons(w.ensure())).To(ConsistOf(v1alpha1.ReasonCACreated, v1alpha1.ReasonCertificateIssued))
	list := &corev1.SecretList{}
	w.Expect(w.client.List(t.Context(), list)).To(Succeed())
	w.Expect(list.Items).To(HaveLen(3))
	w.Expect(list.Items).To(HaveEach(HaveField("Name", HavePrefix("main-peer-"))))
}

// A Secret that another client creates between the read and the write is not taken over.
func TestSecretThatAppears(t *testing.T) {
	w := newWorld(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: w.etcd.ServerSecret(v1alpha1.TLSClients)}, Data: map[string][]byte{"a": []byte("b")}}
	w.with(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if o.GetName() == theirs.Name {
			w.Expect(client.IgnoreAlreadyExists(w.client.Create(ctx, theirs.DeepCopy()))).To(Succeed())
		}
		return c.Create(ctx, o, options...)
	}})
	_, err := w.manager.Ensure(t.Context(), Request{State: &state.State{Etcd: w.etcd, Snapshot: w.snapshot}})
	w.Expect(apierrors.IsConflict(err)).To(BeTrue())
	result := w.ensure()
	w.Expect(result.Foreign).To(ConsistOf(HaveField("Name", "ns/main-server-tls")))
	w.Expect(result.Problem).To(MatchError(And(ContainSubstring("ns/main-server-tls"), ContainSubstring("has no controller"))))
	found := &corev1.Secret{}
	w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), found)).To(Succeed())
	w.Expect(found.Data).To(Equal(theirs.Data))
}

// What the next CA signs is accepted once every member has run with it for long enough, by an observation without gaps, and by
// one more that is live.
func TestWhenTheNextCASigns(t *testing.T) {
	for name, tc := range map[string]struct {
		do      func(w *world)
		renewed bool
	}{
		"long enough": {func(w *world) {
			for range 6 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, true},
		"too early": {func(w *world) {
			for range 4 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"a gap": {func(w *world) {
			w.forward(2 * time.Minute)
			w.ensure()
			w.forward(4 * time.Minute)
			w.ensure()
		}, false},
		"the clock jumps": {func(w *world) {
			w.forward(24 * time.Hour)
			w.ensure()
		}, false},
		"the clock is set back": {func(w *world) {
			for range 3 {
				w.forward(time.Minute)
				w.ensure()
			}
			// As after a pause for which no other clock is asked.
			w.forward(-time.Second)
			for range 3 {
				w.ensure()
				w.forward(time.Minute)
			}
			w.ensure()
		}, false},
		"another operator takes over": {func(w *world) {
			w.forward(2 * time.Minute)
			w.ensure()
			w.with(interceptor.Funcs{})
			for range 4 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"a member runs with other CAs": {func(w *world) {
			w.snapshot.Ordinals[1].Pod.Authorities = "CAs"
			for range 6 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"a member is away for a moment": {func(w *world) {
			for i := range 8 {
				w.snapshot.Ordinals[1].Class = v1alpha1.ClassParticipating
				if i == 3 {
					w.snapshot.Ordinals[1].Class = v1alpha1.ClassUnready
				}
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"a foreign voter": {func(w *world) {
			w.snapshot.Cluster.Voters = append(w.snapshot.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: -1})
			for range 6 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"a foreign voter instead of a member's": {func(w *world) {
			w.snapshot.Cluster.Voters[2].Ordinal = -1
			for range 6 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"the cache is behind": {func(w *world) {
			w.live = clustertest.Healthy(3)
			for range 8 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, false},
		"there are no members": {func(w *world) {
			w.snapshot = clustertest.Healthy(0)
			w.live = w.snapshot
			for range 6 {
				w.forward(time.Minute)
				w.ensure()
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.renewing()
			w.trusting("both")
			w.live = w.snapshot
			w.forward(7 * 24 * time.Hour)
			w.ensure()
			tc.do(w)
			secret := &corev1.Secret{}
			w.Expect(w.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main-peer-ca-key"}, secret)).To(Succeed())
			if tc.renewed {
				w.Expect(secret.Data).To(And(HaveKey("previous.crt"), Not(HaveKey("next.crt"))))
				w.Expect(secret.Annotations).To(HaveKey(v1alpha1.AnnotationTrustedUntil))
			} else {
				w.Expect(secret.Data).To(And(HaveKey("next.crt"), Not(HaveKey("previous.crt"))))
			}
		})
	}
}

// The trust in the previous CA ends by one more look at the Etcd and its members that is live.
func TestWhenThePreviousCAIsRetired(t *testing.T) {
	for name, tc := range map[string]struct {
		live    func(w *world)
		retired bool
	}{
		"nothing has changed": {func(*world) {}, true},
		"the cache is behind": {func(w *world) { w.live = clustertest.Healthy(3) }, false},
		"a member is away":    {func(w *world) { clustertest.Away(w.live, 1, v1alpha1.ClassUnready, "") }, false},
		"the Etcd is another one": {func(w *world) {
			w.Expect(w.client.Delete(context.Background(), w.etcd.DeepCopy())).To(Succeed())
			w.Expect(w.client.Create(context.Background(), &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "another"}})).To(Succeed())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.renewing()
			w.trusting("both")
			w.live = w.snapshot
			w.forward(7 * 24 * time.Hour)
			pass := func(minutes int) {
				for range minutes {
					w.forward(time.Minute)
					_, err := w.manager.Ensure(context.Background(), Request{State: &state.State{Etcd: w.etcd, Snapshot: w.snapshot}, Authorities: w.authorities})
					w.Expect(err).To(Or(BeNil(), MatchError(state.ErrBehind)))
				}
			}
			pass(7)
			secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: "ns", Name: "main-peer-ca-key"}
			w.Expect(w.client.Get(t.Context(), key, secret)).To(Succeed())
			w.Expect(secret.Data).To(HaveKey("previous.crt"))
			until, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationTrustedUntil])
			w.Expect(err).NotTo(HaveOccurred())

			w.clock.SetTime(until)
			w.live = clustertest.Healthy(3)
			for i := range w.live.Ordinals {
				w.live.Ordinals[i].Pod.Authorities = w.authorities
			}
			tc.live(w)
			pass(10)
			w.Expect(w.client.Get(t.Context(), key, secret)).To(Succeed())
			if tc.retired {
				w.Expect(secret.Data).NotTo(HaveKey("previous.crt"))
			} else {
				w.Expect(secret.Data).To(HaveKey("previous.crt"))
			}
		})
	}
}

// A renewal that is requested while the previous CA is still trusted does not begin, which an event says: the key that signs may be stolen.
func TestARenewalDuringARenewal(t *testing.T) {
	w := newWorld(t)
	w.renewing()
	w.trusting("both")
	w.live = w.snapshot
	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.Expect(w.reasons(w.ensure())).NotTo(ContainElement(v1alpha1.ReasonCARenewalIgnored), "what was requested is in progress")
	w.etcd.Annotations = nil
	w.forward(7 * 24 * time.Hour)
	for range 7 {
		w.forward(time.Minute)
		w.ensure()
	}
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: "ns", Name: "main-peer-ca-key"}
	w.Expect(w.client.Get(t.Context(), key, secret)).To(Succeed())
	w.Expect(secret.Data).To(HaveKey("previous.crt"))

	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	w.Expect(w.ensure().Events).To(ConsistOf(And(
		HaveField("Reason", v1alpha1.ReasonCARenewalIgnored),
		HaveField("Note", And(ContainSubstring("Secret main-peer-ca-key: the previous CA is trusted until"), ContainSubstring(v1alpha1.AnnotationTrustedUntil))),
	)))
	w.Expect(w.client.Get(t.Context(), key, secret)).To(Succeed())
	w.Expect(secret.Data).NotTo(HaveKey("next.crt"))
}

// So it is when the trust in the previous CA would end, and a live look at the members refuses that.
func TestARenewalWhileTheRetirementIsRefused(t *testing.T) {
	w := newWorld(t)
	w.renewing()
	w.trusting("both")
	w.live = w.snapshot
	w.forward(7 * 24 * time.Hour)
	pass := func() {
		for range 7 {
			w.forward(time.Minute)
			w.ensure()
		}
	}
	pass()
	secret, key := &corev1.Secret{}, client.ObjectKey{Namespace: "ns", Name: "main-peer-ca-key"}
	w.Expect(w.client.Get(t.Context(), key, secret)).To(Succeed())
	until, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationTrustedUntil])
	w.Expect(err).NotTo(HaveOccurred())
	w.clock.SetTime(until)
	w.live = clustertest.Healthy(3)
	pass()

	w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
	result := w.ensure()
	w.Expect(result.RenewalBegun).To(BeTrue(), "the request does not stay")
	w.Expect(result.Events).To(ConsistOf(And(
		HaveField("Reason", v1alpha1.ReasonCARenewalIgnored),
		HaveField("Note", ContainSubstring("Secret main-peer-ca-key: the previous CA is trusted until")),
	)))
	w.Expect(result.Remarks).To(ContainElement(ContainSubstring("The CA in Secret main-peer-ca-key is being renewed")))
}

// Secrets are not read while nothing is due.
func TestSecretsAreReadSeldom(t *testing.T) {
	w := newWorld(t)
	reads := 0
	w.with(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, o, options...)
	}})
	w.Expect(w.reasons(w.ensure())).To(ContainElement(v1alpha1.ReasonCACreated))
	reads = 0
	w.forward(30 * time.Minute)
	w.Expect(w.ensure().Events).To(BeEmpty())
	w.Expect(reads).To(BeZero())
	w.forward(31 * time.Minute)
	w.ensure()
	w.Expect(reads).To(Equal(11))
	w.forward(60 * 24 * time.Hour)
	renewed := w.ensure()
	w.Expect(w.reasons(renewed)).To(HaveExactElements(v1alpha1.ReasonCertificateIssued))
	for _, secret := range []string{"main-server-tls", "main-operator-tls", "main-client-tls", "main-peer-tls", "main-agent-tls"} {
		w.Expect(renewed.Events[0].Note).To(ContainSubstring("Secret " + secret + ": it expires at"))
	}
}

// A foreign Secret that is deleted is noticed within seconds, however long the API server took to answer.
func TestASlowAPIServerDelaysNothing(t *testing.T) {
	w := newWorld(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: w.etcd.ServerSecret(v1alpha1.TLSClients)}}
	w.Expect(w.client.Create(t.Context(), theirs.DeepCopy())).To(Succeed())
	w.with(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		w.forward(time.Second)
		return c.Get(ctx, key, o, options...)
	}})
	w.Expect(w.ensure().Problem).To(HaveOccurred())
	w.Expect(w.client.Delete(t.Context(), theirs)).To(Succeed())
	w.forward(recheckBroken)
	w.Expect(w.ensure().Problem).NotTo(HaveOccurred())
}

// costlyClock is that of a machine on which whatever is measured takes a while.
type costlyClock struct {
	*clocktesting.FakePassiveClock
	cost time.Duration
}

func (c costlyClock) Since(t time.Time) time.Duration { return c.FakePassiveClock.Since(t) + c.cost }

// Secrets that are expensive to parse are read less often, but not more seldom than every few minutes.
func TestExpensiveSecretsAreReadSeldom(t *testing.T) {
	for cost, after := range map[time.Duration]time.Duration{0: recheckBroken, time.Minute: recheckExpensive} {
		w := newWorld(t)
		w.etcd.Spec.ManagedTLS.Connections = []v1alpha1.TLSConnection{v1alpha1.TLSPeers}
		w.ensure()
		secret := &corev1.Secret{}
		w.Expect(w.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: w.etcd.CAKeySecret(v1alpha1.TLSPeers)}, secret)).To(Succeed())
		secret.Data["tls.crt"] = []byte("x")
		w.Expect(w.client.Update(t.Context(), secret)).To(Succeed())
		w.manager.Clock = costlyClock{w.clock, cost}
		w.forward(recheck)
		w.Expect(w.ensure().Problem).To(HaveOccurred())
		reads := 0
		w.manager.API = interceptor.NewClient(w.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, options...)
		}})
		w.forward(after - 1)
		w.ensure()
		w.Expect(reads).To(BeZero())
		w.forward(1)
		w.ensure()
		w.Expect(reads).NotTo(BeZero())
	}
}

// What keeps the renewal of one CA from beginning does not keep the request: the other CAs would be renewed again and again. An event says what to do.
func TestARenewalThatDoesNotBegin(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"the Secret is foreign":    func(s *corev1.Secret) { s.OwnerReferences = nil },
		"it cannot be used":        func(s *corev1.Secret) { s.Data[keyCertificate] = []byte("x") },
		"a certificate is foreign": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ensure()
			secret, change := &corev1.Secret{}, spoil
			secret.Namespace, secret.Name = "ns", "main-peer-ca-key"
			if change == nil {
				secret.Name, change = "main-peer-tls", func(s *corev1.Secret) { s.OwnerReferences = nil }
			}
			w.Expect(w.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			change(secret)
			w.Expect(w.client.Update(t.Context(), secret)).To(Succeed())
			w.etcd.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationRenewCA}
			result := w.ensure()
			w.Expect(result.RenewalBegun).To(BeTrue())
			w.Expect(result.Events).To(ContainElement(And(HaveField("Reason", v1alpha1.ReasonCARenewalIgnored), HaveField("Note", And(
				ContainSubstring("Secret main-peer-ca-key: its CA is not renewed by the request"), ContainSubstring(secret.Name), ContainSubstring("request it again"))))))
			w.Expect(result.Events).To(ContainElement(HaveField("Reason", v1alpha1.ReasonCARenewalStarted)), "of the other connections")
		})
	}
}
