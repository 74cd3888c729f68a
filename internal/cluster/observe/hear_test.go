// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// nodeLeases is an API server that answers with the Lease of each node, or not, and says what time it is. It counts its requests.
type nodeLeases struct {
	lease  coordinationv1.Lease
	err    error
	now    time.Time
	failed error
	reads  []client.ObjectKey
	asked  int
}

func (n *nodeLeases) client() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			n.reads = append(n.reads, key)
			n.lease.DeepCopyInto(into.(*coordinationv1.Lease))
			return n.err
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			n.asked++
			o.(*authenticationv1.SelfSubjectReview).CreationTimestamp = metav1.NewTime(n.now)
			return n.failed
		},
	}).Build()
}

// renewed is a Lease that was renewed at noon, by the API server's clock. The kubelet's own clock is wrong.
func renewed(duration *int32) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &metav1.Time{Time: noon}}}},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: duration, RenewTime: &metav1.MicroTime{Time: noon.Add(time.Hour)}},
	}
}

// A report of a node that has fallen silent is as stale as one of a node that is marked, whatever the kubelet's clock says.
func TestHear(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "n", errors.New("no"))
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "n")
	for name, c := range map[string]struct {
		api   nodeLeases
		stale string
		asked int
	}{
		"renewed just now":                      {nodeLeases{lease: renewed(ptr.To(int32(40))), now: noon}, "", 1},
		"renewed 8s ago":                        {nodeLeases{lease: renewed(ptr.To(int32(40))), now: noon.Add(8 * time.Second)}, "", 1},
		"renewed 9s ago":                        {nodeLeases{lease: renewed(ptr.To(int32(40))), now: noon.Add(9 * time.Second)}, "its node n is silent (its Lease has not been renewed for 8s)", 1},
		"the duration is not known":             {nodeLeases{lease: renewed(nil), now: noon.Add(9 * time.Second)}, "its node n is silent (its Lease has not been renewed for 8s)", 1},
		"renewed 24s ago, at long intervals":    {nodeLeases{lease: renewed(ptr.To(int32(120))), now: noon.Add(24 * time.Second)}, "", 1},
		"renewed 25s ago, at long intervals":    {nodeLeases{lease: renewed(ptr.To(int32(120))), now: noon.Add(25 * time.Second)}, "its node n is silent (its Lease has not been renewed for 24s)", 1},
		"there is none":                         {nodeLeases{err: gone}, "", 0},
		"it may not be read":                    {nodeLeases{err: refused}, "", 0},
		"nothing says when it has been written": {nodeLeases{}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, api := NewWithT(t), &c.api
			before := &cluster.Snapshot{Ordinals: []cluster.Ordinal{{Class: v1alpha1.ClassDead, Pod: &cluster.Pod{Node: cluster.Node{Name: "n"}}}}}
			s, err := Hear(t.Context(), api.client(), api.client(), before)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Ordinals[0].Pod.Stale()).To(Equal(c.stale))
			g.Expect(s.Ordinals[0].MayRun()).To(Equal(c.stale != ""))
			g.Expect(before.Ordinals[0].Pod.Stale()).To(BeEmpty(), "a Snapshot is a value")
			g.Expect(api.reads).To(Equal([]client.ObjectKey{{Namespace: "kube-node-lease", Name: "n"}}))
			g.Expect(api.asked).To(Equal(c.asked))
		})
	}
}

// Only the reports that an etcd is not running are asked about, and an answer that is missing is none.
func TestWhatIsHeard(t *testing.T) {
	g, at := NewWithT(t), cluster.Node{Name: "n"}
	api := &nodeLeases{lease: renewed(nil), now: noon.Add(time.Minute)}
	s := &cluster.Snapshot{Ordinals: []cluster.Ordinal{
		{Class: v1alpha1.ClassParticipating, Pod: &cluster.Pod{Node: at}},
		{Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Node: at}},
		{Class: v1alpha1.ClassMissing},
		{Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{}},                                           // on no node
		{Class: v1alpha1.ClassDead, Pod: &cluster.Pod{Node: at, Ended: true}},                          // for good
		{Class: v1alpha1.ClassDead, Pod: &cluster.Pod{Node: cluster.Node{Name: "n", Trouble: "gone"}}}, // stale already
		{Class: v1alpha1.ClassTerminating, Pod: &cluster.Pod{Node: at, EtcdStarted: noon}},             // may run
	}}
	same, err := Hear(t.Context(), api.client(), api.client(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(same).To(BeIdenticalTo(s))
	g.Expect(api.reads).To(BeEmpty())

	s.Ordinals = append(s.Ordinals, cluster.Ordinal{Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{Node: at}}, cluster.Ordinal{Class: v1alpha1.ClassTerminating, Pod: &cluster.Pod{Node: at}})
	heard, err := Hear(t.Context(), api.client(), api.client(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(heard.Ordinals[7].MayRun()).To(BeTrue())
	g.Expect(heard.Ordinals[8].MayRun()).To(BeTrue())
	g.Expect(heard.Ordinals[:7]).To(Equal(s.Ordinals[:7]))
	g.Expect(api.asked).To(Equal(1), "the time is asked for once")

	api.failed = errors.New("no time")
	_, err = Hear(t.Context(), api.client(), api.client(), s)
	g.Expect(err).To(MatchError(ContainSubstring("no time")))
	api.err = errors.New("no lease")
	_, err = Hear(t.Context(), api.client(), api.client(), s)
	g.Expect(err).To(MatchError("reading the Lease of node n: no lease"))
}
