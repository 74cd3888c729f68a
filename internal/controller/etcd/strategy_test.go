// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDecideStrategy(t *testing.T) {
	onDelete := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	rolling := func(partition *int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: partition},
		}
	}
	for _, tc := range []struct {
		name        string
		quorumAware bool
		live        appsv1.StatefulSetUpdateStrategy
		want        strategyChange
	}{
		{"gate on, OnDelete", true, onDelete, keepStrategy},
		{"gate on, RollingUpdate", true, rolling(ptr.To[int32](0)), toOnDelete},
		{"gate off, OnDelete", false, onDelete, toRollingUpdate},
		{"gate off, RollingUpdate", false, rolling(ptr.To[int32](0)), keepStrategy},
		{"gate off, pods spared", false, rolling(ptr.To[int32](2)), repairPartition},
		{"gate off, partition unset", false, rolling(nil), repairPartition},
		{"gate off, nothing set", false, appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}, repairPartition},
	} {
		t.Run(tc.name, func(t *testing.T) {
			NewWithT(t).Expect(decideStrategy(tc.quorumAware, tc.live)).To(Equal(tc.want))
		})
	}
}

func TestMayRoll(t *testing.T) {
	missing := snapshotOf(3)
	away(missing, 1, v1alpha1.ClassMissing, "")
	surplus := snapshotOf(1)
	surplus.Surplus = []string{"etcd-main-1"}
	for _, tc := range []struct {
		name      string
		snapshot  *observe.Snapshot
		awaySince *metav1.Time
		want      bool
	}{
		{"all participate", snapshotOf(3), nil, true},
		{"all participate, the status is late", snapshotOf(3), &noon, true},
		{"asleep", snapshotOf(0), nil, true},
		{"one is away, the status is late", missing, nil, false},
		{"one is away", missing, ptr.To(metav1.NewTime(noon.Add(-progressDeadline + time.Second))), false},
		{"one is away for too long", missing, ptr.To(metav1.NewTime(noon.Add(-progressDeadline))), true},
		{"a pod is still to go", surplus, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			NewWithT(t).Expect(mayRoll(tc.snapshot, tc.awaySince, noon.Time)).To(Equal(tc.want))
		})
	}
}
