// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package strategy

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
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
		want        change
	}{
		{"gate on, OnDelete", true, onDelete, keep},
		{"gate on, RollingUpdate", true, rolling(ptr.To[int32](0)), toOnDelete},
		{"gate off, OnDelete", false, onDelete, toRollingUpdate},
		{"gate off, RollingUpdate", false, rolling(ptr.To[int32](0)), keep},
		{"gate off, pods spared", false, rolling(ptr.To[int32](2)), repairPartition},
		{"gate off, partition unset", false, rolling(nil), repairPartition},
		{"gate off, nothing set", false, appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}, repairPartition},
	} {
		t.Run(tc.name, func(t *testing.T) {
			NewWithT(t).Expect(decide(tc.quorumAware, tc.live)).To(Equal(tc.want))
		})
	}
}
