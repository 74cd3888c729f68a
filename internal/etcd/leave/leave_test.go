// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
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

// An Etcd is kept as long as members of it may be in the list of a source cluster.
func TestKeep(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*v1alpha1.Etcd)
		released bool
		kept     bool
	}{
		"it joins":                {kept: true},
		"no member has started":   {change: func(e *v1alpha1.Etcd) { e.Status.ClusterID = "" }},
		"the source leaves":       {change: cutOver, kept: true},
		"the source has left":     {change: func(e *v1alpha1.Etcd) { cutOver(e); e.Status.BootstrapWithExistingCluster.Source = nil }},
		"it is recovered":         {change: func(e *v1alpha1.Etcd) { cutOver(e); e.Status.Recovery = &v1alpha1.ClusterRecovery{} }},
		"etcd-druid manages it":   {released: true},
		"it has its own cluster":  {change: func(e *v1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil }},
		"others have a finalizer": {change: func(e *v1alpha1.Etcd) { e.Finalizers = []string{"other"} }, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := joined(2).Etcd
			if tc.change != nil {
				tc.change(etcd)
			}
			others := len(etcd.Finalizers)
			api := apitest.API(etcd)
			for range 2 {
				g.Expect(leaverOf(api).Keep(t.Context(), etcd, tc.released)).To(Succeed())
				g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
				if tc.kept {
					g.Expect(etcd.Finalizers).To(And(HaveLen(others+1), ContainElement(v1alpha1.FinalizerLeaveSource)))
				} else {
					g.Expect(etcd.Finalizers).To(HaveLen(others))
				}
			}
			g.Expect(leaverOf(api).Keep(t.Context(), etcd, true)).To(Succeed())
			g.Expect(etcd.Finalizers).To(HaveLen(others))
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
		"nothing was joined":     {change: func(live, _ *v1alpha1.Etcd) { live.Status.ClusterID = "" }, gone: true},
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
