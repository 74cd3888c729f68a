// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package memberships

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errAsked = errors.New("the members are asked")

// asked is an observer that fails.
type asked struct{ observe.Confirming }

func (asked) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return nil, errAsked
}

// The members of a cluster that etcd-druid manages are not asked, and the operator does not poll: an adoption changes the Etcd.
func TestMembersOfDruidAreLeftAlone(t *testing.T) {
	for manager, asks := range map[string]bool{v1alpha1.ManagedBy: true, v1alpha1.ManagedByDruid: false} {
		g := NewWithT(t)
		etcd := etcd(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 })
		set := apitest.StatefulSet(etcd, 3)
		set.Labels[v1alpha1.LabelManagedBy] = manager
		api := apitest.API(etcd, set)
		r := &Reconciler{Client: api, Live: api, Reader: members.Reader{Observer: asked{}}, Clock: clock.RealClock{}}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		if asks {
			g.Expect(err).To(MatchError(errAsked))
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(Equal(ctrl.Result{}))
	}
}
