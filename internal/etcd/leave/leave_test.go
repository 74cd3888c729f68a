// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errAsked = errors.New("the source is asked")

func leaverOf(api client.WithWatch) *Leaver {
	return &Leaver{
		Access:  state.Access{Client: api, API: api, Locker: &lock.Locks{}, Clock: clock.RealClock{}},
		Observe: func(context.Context, *v1alpha1.Etcd) (*cluster.Snapshot, error) { return nil, errAsked },
	}
}

// An Etcd keeps the finalizer as long as members of it may be in the list of a source cluster, and gets it if they show that they are.
func TestKeep(t *testing.T) {
	voters := func(ordinals ...int) *cluster.Snapshot {
		s := &cluster.Snapshot{Ordinals: make([]cluster.Ordinal, 2)}
		for _, i := range ordinals {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{Ordinal: i})
		}
		return s
	}
	learns := voters(-1)
	learns.Ordinals[1].Answers = true
	for name, tc := range map[string]struct {
		change   func(*v1alpha1.Etcd)
		seen     *cluster.Snapshot
		released bool
		// kept: without the finalizer it gets it, and with it, it keeps it.
		kept, keeps bool
	}{
		"no member was seen":                   {seen: voters(-1, -1), keeps: true},
		"it has no members":                    {keeps: true},
		"a member votes":                       {seen: voters(-1, 0), kept: true, keeps: true},
		"a member answers":                     {seen: learns, kept: true, keeps: true},
		"its members had joined":               {change: func(e *v1alpha1.Etcd) { cutOver(e); e.Spec.Etcd.BootstrapWithExistingCluster = e.Source() }, kept: true, keeps: true},
		"the source leaves":                    {change: cutOver, kept: true, keeps: true},
		"no member has started":                {change: func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }},
		"the source has left":                  {change: func(e *v1alpha1.Etcd) { cutOver(e); e.Status.BootstrapWithExistingCluster.Source = nil }},
		"it is recovered":                      {change: func(e *v1alpha1.Etcd) { cutOver(e); e.Status.Recovery = &v1alpha1.ClusterRecovery{} }},
		"etcd-druid manages it":                {seen: voters(0), released: true},
		"it has its own cluster":               {change: func(e *v1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil }, seen: voters(0, 1)},
		"others have a finalizer":              {change: func(e *v1alpha1.Etcd) { e.Finalizers = []string{"other"} }, seen: voters(0), kept: true, keeps: true},
		"others have one, and no member joins": {change: func(e *v1alpha1.Etcd) { e.Finalizers = []string{"other"} }, keeps: true},
	} {
		for has, want := range map[bool]bool{false: tc.kept, true: tc.keeps} {
			t.Run(fmt.Sprintf("%s, with the finalizer: %t", name, has), func(t *testing.T) {
				g := NewWithT(t)
				etcd := joined(2).Etcd
				if tc.change != nil {
					tc.change(etcd)
				}
				others := len(etcd.Finalizers)
				if has {
					etcd.Finalizers = append(etcd.Finalizers, v1alpha1.FinalizerLeaveSource)
				}
				api := apitest.API(etcd)
				for range 2 {
					g.Expect(leaverOf(api).Keep(t.Context(), etcd, tc.seen, tc.released)).To(Succeed())
					g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
					if want {
						g.Expect(etcd.Finalizers).To(And(HaveLen(others+1), ContainElement(v1alpha1.FinalizerLeaveSource)))
					} else {
						g.Expect(etcd.Finalizers).To(HaveLen(others))
					}
				}
			})
		}
	}
}

// Before a member may be added to the source, its Etcd is held. One that is being deleted is not, so that nothing is added any more; and one
// that has changed since it was read has to be read again.
func TestHold(t *testing.T) {
	g := NewWithT(t)
	etcd := joined(0).Etcd
	api := apitest.API(etcd)
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	stale := etcd.DeepCopy()
	for range 2 {
		g.Expect(Hold(t.Context(), api, etcd)).To(Succeed())
		g.Expect(etcd.Finalizers).To(Equal([]string{v1alpha1.FinalizerLeaveSource}))
	}
	g.Expect(apierrors.IsConflict(Hold(t.Context(), api, stale))).To(BeTrue())

	deleted := joined(0).Etcd
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"other"}, &metav1.Time{Time: noon}
	g.Expect(Hold(t.Context(), apitest.API(deleted), deleted)).To(MatchError("adding a member of Etcd ns/main to the source cluster: the Etcd is being deleted"))

	own := joined(0).Etcd
	own.Spec.Etcd.BootstrapWithExistingCluster = nil
	g.Expect(Hold(t.Context(), api, own)).To(Succeed())
	g.Expect(own.Finalizers).To(BeEmpty(), "it joins no cluster")
}

// An Etcd whose source the operator may not connect to is kept for that reason, which is to be fixed before anything is abandoned.
func TestLeaveWhereTheOperatorMayNotConnect(t *testing.T) {
	for name, tc := range map[string]struct {
		refused []string
		says    bool
	}{"all": {[]string{"https://a:2379", "https://b:2379"}, true}, "one": {[]string{"https://a:2379"}, false}, "none": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := joined(2).Etcd
			etcd.Finalizers, etcd.DeletionTimestamp = []string{v1alpha1.FinalizerLeaveSource}, &metav1.Time{Time: noon}
			etcd.Spec.Etcd.BootstrapWithExistingCluster.ClientEndpoints = []string{"https://a:2379", "https://b:2379"}
			l := leaverOf(apitest.API(etcd))
			l.Observe = func(context.Context, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
				return &cluster.Snapshot{At: noon}, nil
			}
			l.Reader.Credentials = &certificates.Credentials{Elsewhere: func(_ *v1alpha1.Etcd, endpoint string) error {
				if slices.Contains(tc.refused, endpoint) {
					return fmt.Errorf("joinSources does not have %s", endpoint)
				}
				return nil
			}}
			why, after, err := l.Leave(t.Context(), etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after).To(Equal(unreachableInterval))
			g.Expect(why).To(ContainSubstring(v1alpha1.AnnotationAbandonSource))
			if tc.says {
				g.Expect(why).To(HavePrefix("joinSources does not have https://a:2379; joinSources does not have https://b:2379; to have its members leave, have the administrator of the operator add one of these, and restart the operator. ListKnown: "))
			} else {
				g.Expect(why).NotTo(ContainSubstring("joinSources"))
			}
		})
	}
}

// asked is a source whose members the operator can reach, and which removes those that it is asked to.
type asked struct {
	etcdclient.Client
	list    []etcdclient.Member
	dialed  map[string]bool
	removed []uint64
}

func (a *asked) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	a.dialed[endpoint] = true
	return a, nil
}

func (a *asked) ConfirmedMembers(context.Context) ([]etcdclient.Member, error) {
	return slices.Clone(a.list), nil
}

func (a *asked) RemoveMember(_ context.Context, id uint64) error {
	a.list = slices.DeleteFunc(a.list, func(m etcdclient.Member) bool { return m.ID == id })
	a.removed = append(a.removed, id)
	return nil
}

func (a *asked) Close() error { return nil }

// A source that has replaced every declared member is asked through those that it has now: once the pods of the Etcd are gone, or its last
// member has left, no other member can be asked.
func TestLeaveAReplacedSource(t *testing.T) {
	for name, change := range map[string]func(*members.Known){
		"with names": func(*members.Known) {},
		"without": func(k *members.Known) {
			for i := range 3 {
				k.List[i].Name, k.Snapshot.Cluster.Voters[i].Name = "", hex(k.List[i].ID)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, k := NewWithT(t), joined(2)
			replaced(0, 1, 2)(&k)
			down(3, 4)(&k)
			for i := range k.List {
				k.Snapshot.Cluster.Voters[i].PeerURLs = k.List[i].PeerURLs
			}
			change(&k)
			k.Etcd.Finalizers, k.Etcd.DeletionTimestamp = []string{v1alpha1.FinalizerLeaveSource}, &metav1.Time{Time: noon}
			api, source := apitest.API(k.Etcd), &asked{list: k.List, dialed: map[string]bool{}}
			l, at := leaverOf(api), noon
			l.Reader = members.Reader{Dialer: source, Credentials: &certificates.Credentials{Reader: api, Clock: l.Clock}}
			l.Observe = func(context.Context, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
				at = at.Add(time.Second)
				s := &cluster.Snapshot{At: at, Cluster: k.Snapshot.Cluster}
				s.Cluster.Voters = slices.DeleteFunc(slices.Clone(s.Cluster.Voters), func(v cluster.Voter) bool { return slices.Contains(source.removed, v.ID) })
				return s, nil
			}
			var waits string
			for range 60 {
				why, after, err := l.Leave(t.Context(), k.Etcd)
				g.Expect(err).NotTo(HaveOccurred())
				if waits = why; after == 0 {
					break
				}
			}
			g.Expect(waits).To(BeEmpty())
			g.Expect(source.removed).To(Equal([]uint64{11, 10}))
			g.Expect(source.dialed).To(HaveKey("http://s0"))
			g.Expect(apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(k.Etcd), k.Etcd))).To(BeTrue())
		})
	}
}

func cutOver(e *v1alpha1.Etcd) {
	e.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: e.Spec.Etcd.BootstrapWithExistingCluster}
	e.Spec.Etcd.BootstrapWithExistingCluster = nil
}

// What is to run on without its Etcd stays in the list. A cache that shows an earlier Etcd decides nothing.
func TestLeave(t *testing.T) {
	set := func(owned bool, labels map[string]string) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", Labels: labels}}
		if owned {
			s.OwnerReferences = apitest.ControlledBy(joined(0).Etcd)
		}
		return s
	}
	labels := map[string]string{v1alpha1.LabelPartOf: "main"}
	for name, tc := range map[string]struct {
		change func(live, cached *v1alpha1.Etcd)
		set    *appsv1.StatefulSet
		gone   bool
		err    error
	}{
		"it leaves":                 {set: set(true, labels), err: errAsked},
		"its StatefulSet is gone":   {err: errAsked},
		"its objects are orphans":   {set: set(false, labels), gone: true},
		"a StatefulSet of its name": {set: set(false, nil), err: errAsked},
		"its objects become orphans": {change: func(live, _ *v1alpha1.Etcd) {
			live.Finalizers = append(live.Finalizers, metav1.FinalizerOrphanDependents)
		}},
		"nothing was joined": {change: func(live, _ *v1alpha1.Etcd) { live.Status.ClusterID = "" }, gone: true},
		"a person lets it go": {set: set(true, labels), change: func(live, _ *v1alpha1.Etcd) {
			live.Annotations = map[string]string{v1alpha1.AnnotationAbandonSource: "etcd"}
		}, gone: true},
		"a person has let another one go": {set: set(true, labels), change: func(live, _ *v1alpha1.Etcd) {
			live.Annotations = map[string]string{v1alpha1.AnnotationAbandonSource: "true"}
		}, err: errAsked},
		"it is another one":      {change: func(_, cached *v1alpha1.Etcd) { cached.UID = "earlier" }, err: state.ErrBehind},
		"a person has let it go": {change: func(live, _ *v1alpha1.Etcd) { live.Finalizers = []string{"other"} }, err: state.ErrBehind},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			live := joined(2).Etcd
			live.Finalizers = []string{v1alpha1.FinalizerLeaveSource}
			live.DeletionTimestamp = &metav1.Time{Time: noon}
			cached := live.DeepCopy()
			if tc.change != nil {
				tc.change(live, cached)
			}
			objects := []client.Object{live}
			if tc.set != nil {
				objects = append(objects, tc.set)
			}
			api := apitest.API(objects...)
			why, _, err := leaverOf(api).Leave(t.Context(), cached)
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(why).To(BeEmpty())
			} else {
				g.Expect(err).To(MatchError(tc.err))
			}
			err = api.Get(t.Context(), client.ObjectKeyFromObject(live), live)
			g.Expect(client.IgnoreNotFound(err)).To(Succeed())
			g.Expect(err != nil).To(Equal(tc.gone))
			if tc.err == nil && err == nil {
				g.Expect(live.Finalizers).NotTo(ContainElement(v1alpha1.FinalizerLeaveSource))
			}
		})
	}
}
