// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// closing counts the connections that are open.
type closing struct {
	etcdfake.Cluster
	open int
}

func (c *closing) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	m, err := c.Cluster.Dial(endpoint, config)
	if err == nil {
		c.open++
	}
	return closed{m, c}, err
}

type closed struct {
	etcdclient.Client
	of *closing
}

func (c closed) Close() error {
	c.of.open--
	return nil
}

// surrounded is an Etcd of one member that does not answer, with all that is read of it.
func surrounded() (*v1alpha1.Etcd, []client.Object) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	set := &appsv1.StatefulSet{ObjectMeta: owned(etcd, etcd, v1alpha1.KindEtcd), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)}}
	set.Name, set.UID = "m", "s"
	pod := &corev1.Pod{ObjectMeta: owned(etcd, set, "StatefulSet"), Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{PodIP: "10.0.0.0"}}
	pod.Name = "m-0"
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-m-0"}}}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-0", OwnerReferences: apitest.ControlledBy(etcd)}}
	return etcd, []client.Object{set, pod, lease, newClaim(), newVolume("n1", "n2"), newNode("n1", corev1.ConditionTrue, true), newNode("n2", corev1.ConditionTrue, false)}
}

var errNoAnswer = errors.New("the API server does not answer")

// failing fails the requests for a kind of objects; "List" is added for lists.
func failing(api client.WithWatch, kind string) client.WithWatch {
	answer := func(o any) error {
		if fmt.Sprintf("%T", o) == kind {
			return errNoAnswer
		}
		return nil
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return errors.Join(answer(o), c.Get(ctx, key, o, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, options ...client.ListOption) error {
			return errors.Join(answer(o), c.List(ctx, o, options...))
		},
	})
}

// A snapshot is complete, or there is none: what cannot be read is not taken for gone.
func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for kind, says := range map[string]string{
		"*v1.StatefulSet": "reading StatefulSet ns/m", "*v1.PodList": "listing the pods of StatefulSet ns/m", "*v1.LeaseList": "listing the member leases of Etcd ns/m",
		"*v1.PersistentVolumeClaimList": "listing the claims of Etcd ns/m", "*v1.PersistentVolumeClaim": "reading claim ns/data-m-0",
		"*v1.PersistentVolume": "reading volume pv", "*v1.Node": "reading node n1", "*v1.NodeList": "listing nodes",
	} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			etcd, objects := surrounded()
			api := apitest.API(objects...)
			dialer := &closing{Cluster: etcdfake.Cluster{Names: []string{"m-0"}, Endpoints: []string{"http://10.0.0.0:2379"}, Up: func(int) bool { return false }}}
			seen, err := New(dialer, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), WithSurroundings(api)).Observe(t.Context(), api, etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(dialer.open).To(BeZero())
			g.Expect(seen.Ordinals[0].Pod.VolumeTrouble).To(BeEmpty())
			g.Expect(seen.Ordinals[0].Pod.Node.Cordoned).To(BeTrue())

			broken := failing(api, kind)
			o := New(dialer, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), WithSurroundings(broken))
			none, err := o.Observe(t.Context(), broken, etcd)
			g.Expect(err).To(And(MatchError(errNoAnswer), MatchError(ContainSubstring(says))))
			g.Expect(none).To(BeNil())
			none, err = o.Confirm(t.Context(), broken, etcd, seen)
			g.Expect(err).To(MatchError(errNoAnswer))
			g.Expect(none).To(BeNil())
		})
	}
}

// An observation that took too long is none.
func TestObservationThatIsCancelled(t *testing.T) {
	g := NewWithT(t)
	etcd, objects := surrounded()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := input{statefulSet: cluster.StatefulSet{Name: "m"}}
	g.Expect(New(&etcdfake.Cluster{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).ask(ctx, etcd, &f)).To(MatchError(ContainSubstring("asking the members of StatefulSet m: context canceled")))
	g.Expect(objects).NotTo(BeEmpty())
}

func TestWithoutAStatefulSet(t *testing.T) {
	g := NewWithT(t)
	etcd, objects := surrounded()
	o := New(&etcdfake.Cluster{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	_, err := o.Observe(t.Context(), apitest.API(objects[1:]...), etcd)
	g.Expect(err).To(MatchError(ErrNoStatefulSet))
	// One replica is what a StatefulSet has that says nothing of them.
	objects[0].(*appsv1.StatefulSet).Spec.Replicas = nil
	etcd.Spec.Replicas = 3
	s, err := o.Observe(t.Context(), apitest.API(objects...), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Ordinals).To(HaveLen(1))
	g.Expect(s.Changing).To(BeTrue())
}

// A StatefulSet that another operator manages is observed, as an adoption needs it, and the Snapshot says whose it is.
func TestStatefulSetOfAnotherOperator(t *testing.T) {
	for manager, says := range map[string]types.GomegaMatcher{v1alpha1.ManagedByDruid: ContainSubstring("managed by etcd-druid"), v1alpha1.ManagedBy: BeEmpty()} {
		g := NewWithT(t)
		etcd, objects := surrounded()
		objects[0].SetLabels(map[string]string{v1alpha1.LabelManagedBy: manager})
		s, err := New(&etcdfake.Cluster{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).Observe(t.Context(), apitest.API(objects...), etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.StatefulSet.Foreign).To(says)
	}
}

// The template of a StatefulSet counts once its controller has seen it, and its strategy says who replaces pods.
func TestDescribeStatefulSet(t *testing.T) {
	g := NewWithT(t)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "s", Generation: 2, Annotations: map[string]string{v1alpha1.AnnotationHeldAtZeroBy: "task"}}}
	for observed, want := range map[int64]bool{1: false, 2: true, 3: true} {
		set.Status.ObservedGeneration = observed
		g.Expect(describeStatefulSet(set).Observed).To(Equal(want), "generation %d of 2", observed)
	}
	for strategy, want := range map[appsv1.StatefulSetUpdateStrategyType]bool{appsv1.OnDeleteStatefulSetStrategyType: true, appsv1.RollingUpdateStatefulSetStrategyType: false, "": false} {
		set.Spec.UpdateStrategy.Type = strategy
		g.Expect(describeStatefulSet(set).OnDelete).To(Equal(want), string(strategy))
	}
	set.Status.UpdateRevision = "new"
	got := describeStatefulSet(set)
	g.Expect([]any{got.Name, got.UID, got.Generation, got.UpdateRevision, got.HeldAtZeroBy, got.OfDruid}).To(HaveExactElements(
		BeEquivalentTo("m"), BeEquivalentTo("s"), BeEquivalentTo(2), BeEquivalentTo("new"), BeEquivalentTo("task"), BeFalse()))
}

// A leader that only a member without an ordinal knows is a leader. A member that the list does not have answers for itself, and says
// which version it runs.
func TestWhoIsHeard(t *testing.T) {
	g := NewWithT(t)
	f := answersOf(2, map[int]etcdclient.Status{0: says(0, 0, 5)})
	f.members = append(f.members, etcdclient.Member{ID: 51, Name: "far"})
	f.foreign = map[uint64]etcdclient.Status{51: {ClusterID: 7, MemberID: 51, Leader: 51, Term: 6}}
	s := build(f)
	g.Expect(s.Cluster.Leader).To(Equal(uint64(51)))
	g.Expect(s.Cluster.LeaderKnown).To(BeTrue())

	alone := says(0, 1, 5)
	alone.Version, alone.StorageVersion, alone.DowngradeTo = "3.6.1", "3.6.0", "3.5.0"
	f = answersOf(1, map[int]etcdclient.Status{0: alone})
	f.members = nil
	s = build(f)
	g.Expect(s.Ordinals[0].Answers).To(BeTrue())
	g.Expect(s.Ordinals[0].Versions).To(Equal(cluster.Versions{Etcd: "3.6.1", Storage: "3.6.0", DowngradeTo: "3.5.0"}))
}

// What the kubelet or the API server says of a pod stays, unless its member answers.
func TestRefine(t *testing.T) {
	for class, want := range map[v1alpha1.PodClass]map[bool]v1alpha1.PodClass{
		v1alpha1.ClassMissing:     {true: v1alpha1.ClassMissing, false: v1alpha1.ClassMissing},
		v1alpha1.ClassTerminating: {true: v1alpha1.ClassTerminating, false: v1alpha1.ClassTerminating},
		v1alpha1.ClassDead:        {true: v1alpha1.ClassUnready, false: v1alpha1.ClassDead},
		v1alpha1.ClassStarting:    {true: v1alpha1.ClassUnready, false: v1alpha1.ClassStarting},
		v1alpha1.ClassUnready:     {true: v1alpha1.ClassParticipating, false: v1alpha1.ClassUnready},
	} {
		for answers, want := range want {
			o := cluster.Ordinal{Class: class, Answers: answers, Serving: answers, Pod: &cluster.Pod{Ready: true}}
			if got := refine(&o); got != want {
				t.Errorf("%s, answers %v: %s", class, answers, got)
			}
		}
	}
}

// At most seven voters without a pod are asked: the list may have any number.
func TestForeignVotersAreAskedUpToABound(t *testing.T) {
	g := NewWithT(t)
	f := &input{ordinals: []cluster.Ordinal{{Member: "ours"}}, answers: map[int]etcdclient.Status{0: {MemberID: 3}}}
	f.members = []etcdclient.Member{
		{ID: 1, Name: "learner", Learner: true, ClientURLs: []string{"a"}}, {ID: 2, Name: "ours", ClientURLs: []string{"a"}},
		{ID: 3, Name: "renamed", ClientURLs: []string{"a"}}, {ID: 4, Name: "silent"}, {ID: 5, Name: "far", ClientURLs: []string{"b", "c"}},
	}
	g.Expect(foreignVoters(f)).To(Equal(map[uint64]target{5: {endpoint: "b"}}))
	for id := range uint64(20) {
		f.members = append(f.members, etcdclient.Member{ID: 100 + id, ClientURLs: []string{"x"}})
	}
	g.Expect(foreignVoters(f)).To(HaveLen(maxForeign))
}

// Who knows no leader is asked last for the member list.
func TestKnowsLeader(t *testing.T) {
	g := NewWithT(t)
	f := &input{answers: map[int]etcdclient.Status{0: says(0, 0, 9), 1: says(1, 2, 5), 2: says(2, 2, 6)}}
	g.Expect(bestInformed(f.answers, f.clusterID())).To(Equal([]int{2, 1, 0}))
	g.Expect(knowsLeader(says(0, 2, 5)) - knowsLeader(says(0, 0, 5))).To(Equal(1))
}

// Confirm compares names as well: the member of another name is another member.
func TestConfirmComparesNames(t *testing.T) {
	g := NewWithT(t)
	f := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0"}}}
	g.Expect(f.confirm(&cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0"}}})).To(BeTrue())
	g.Expect(f.confirm(&cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "m-0", Member: "x"}}})).To(BeFalse())
	g.Expect(f.confirm(&cluster.Snapshot{Ordinals: []cluster.Ordinal{{Name: "x", Member: "m-0"}}})).To(BeFalse())
}

// A ready member that does not answer over TLS may have another certificate, or want another one: the Secrets are read again. Others say
// nothing of them.
func TestASilentMemberCastsDoubtOnTheCertificates(t *testing.T) {
	ca, err := certs.NewCA("ca")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue([]string{"m"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	refs := v1alpha1.SecretReference{Name: "all"}
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{TLSCASecretRef: v1alpha1.CASecretReference{SecretReference: refs}, ServerTLSSecretRef: refs, ClientTLSSecretRef: refs}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all"}, Data: map[string][]byte{"ca.crt": ca.PEM, "tls.crt": pair.Certificate, "tls.key": pair.Key}}
	for name, c := range map[string]struct {
		pod      *cluster.Pod
		answered bool
		doubt    bool
	}{
		"ready and silent": {&cluster.Pod{Ready: true, Endpoint: "https://a:1"}, false, true},
		"it answers":       {&cluster.Pod{Ready: true, Endpoint: "https://a:1"}, true, false},
		"it is not ready":  {&cluster.Pod{Endpoint: "https://a:1"}, false, false},
		"without TLS":      {&cluster.Pod{Ready: true, Endpoint: "http://a:1"}, false, false},
		"there is no pod":  {nil, false, false},
	} {
		g := NewWithT(t)
		reads, clock := 0, clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		api := interceptor.NewClient(apitest.API(secret), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				reads++
				return c.Get(ctx, key, o, options...)
			},
		})
		credentials := &certificates.Credentials{Reader: api, Clock: clock}
		connect := func() {
			_, err := credentials.TLS(t.Context(), etcd, "m-0", "https://a:1")
			g.Expect(err).NotTo(HaveOccurred())
		}
		connect()
		reads = 0
		clock.SetTime(clock.Now().Add(time.Minute))
		f := &input{ordinals: []cluster.Ordinal{{Name: "m-0", Pod: c.pod}}, answers: map[int]etcdclient.Status{}}
		if c.answered {
			f.answers[0] = etcdclient.Status{MemberID: 1}
		}
		o := New(&etcdfake.Cluster{}, clock, WithCredentials(credentials))
		if c.answered || c.pod == nil {
			o.recheckCertificates(etcd, f)
		} else {
			g.Expect(o.ask(t.Context(), etcd, f)).To(Succeed())
		}
		connect()
		g.Expect(reads > 0).To(Equal(c.doubt), name)
	}
}
