// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPollAfter(t *testing.T) {
	type states map[string]metav1.ConditionStatus
	healthy := states{v1alpha1.ConditionReady: metav1.ConditionTrue, v1alpha1.ConditionAllMembersReady: metav1.ConditionTrue, v1alpha1.ConditionScaled: metav1.ConditionTrue}
	for name, tc := range map[string]struct {
		condition, reason string
		status            metav1.ConditionStatus
		want              time.Duration
	}{
		"healthy":             {v1alpha1.ConditionReady, v1alpha1.ReasonQuorate, metav1.ConditionTrue, pollHealthy},
		"a member is missing": {v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonNotAllMembersReady, metav1.ConditionFalse, pollTroubled},
		"hibernated":          {v1alpha1.ConditionReady, v1alpha1.ReasonHibernated, metav1.ConditionFalse, pollHealthy},
		"hibernating":         {v1alpha1.ConditionHibernated, v1alpha1.ReasonHibernating, metav1.ConditionFalse, pollTroubled},
		"waking up":           {v1alpha1.ConditionHibernated, v1alpha1.ReasonWakingUp, metav1.ConditionFalse, pollTroubled},
		"shrinking":           {v1alpha1.ConditionScaled, v1alpha1.ReasonScalingIn, metav1.ConditionFalse, pollTroubled},
		"growing":             {v1alpha1.ConditionScaled, v1alpha1.ReasonScalingOut, metav1.ConditionFalse, pollTroubled},
		"volumes move":        {v1alpha1.ConditionVolumesMoved, v1alpha1.ReasonVolumesMoving, metav1.ConditionFalse, pollTroubled},
		"volumes cannot move": {v1alpha1.ConditionVolumesMoved, v1alpha1.ReasonClaimNotOwned, metav1.ConditionFalse, pollHealthy},
		"switching to TLS":    {v1alpha1.ConditionTLSReady, v1alpha1.ReasonPeerTLSRollout, metav1.ConditionFalse, pollTroubled},
		"TLS in use":          {v1alpha1.ConditionTLSReady, v1alpha1.ReasonTLSInUse, metav1.ConditionTrue, pollHealthy},
	} {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.EtcdStatus{}
			for conditionType, s := range healthy {
				if conditionType != tc.condition {
					status.Conditions.Set(metav1.Condition{Type: conditionType, Status: s})
				}
			}
			status.Conditions.Set(metav1.Condition{Type: tc.condition, Status: tc.status, Reason: tc.reason})
			NewWithT(t).Expect(pollAfter(status)).To(Equal(tc.want))
		})
	}
}
