// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestDataVolumesReady(t *testing.T) {
	named := func(ordinal string, change func(*claim)) claim {
		c := claim{name: "etcd-main-etcd-main-" + ordinal, bound: true}
		change(&c)
		return c
	}
	bound := func(*claim) {}
	pending := func(c *claim) { c.bound = false }
	warned := func(c *claim) { c.bound, c.warning = false, "ProvisioningFailed: the disk is full." }
	lost := func(c *claim) { c.bound, c.lost = false, true }
	for name, tc := range map[string]struct {
		claims  []claim
		refusal *cluster.Refusal
		status  metav1.ConditionStatus
		reason  string
		says    string
	}{
		"every claim has its volume":                 {[]claim{named("0", bound), named("1", bound)}, nil, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member"},
		"there are no claims":                        {nil, nil, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member"},
		"one waits for its volume":                   {[]claim{named("0", bound), named("1", pending)}, nil, metav1.ConditionUnknown, v1alpha1.ReasonVolumeMissing, "claim etcd-main-etcd-main-1 has no volume yet."},
		"one waits, with a warning":                  {[]claim{named("0", pending), named("1", warned)}, nil, metav1.ConditionFalse, v1alpha1.ReasonVolumeMissing, "claim etcd-main-etcd-main-1 has no volume: ProvisioningFailed: the disk is full."},
		"a warning is not repeated for other claims": {[]claim{named("0", warned), named("1", pending)}, nil, metav1.ConditionFalse, v1alpha1.ReasonVolumeMissing, "claim etcd-main-etcd-main-1 has no volume yet."},
		"a volume is gone":                           {[]claim{named("0", lost)}, nil, metav1.ConditionFalse, v1alpha1.ReasonVolumeLost, "the volume of claim etcd-main-etcd-main-0 no longer exists"},
		"a claim that no replica uses":               {[]claim{named("0", bound), named("4", pending)}, nil, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member"},
		"a member waits until it is added":           {nil, &cluster.Refusal{Reason: v1alpha1.ReasonNotListed, Message: "it is not listed"}, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member"},
		"a member does not start, and a claim waits": {
			[]claim{named("1", pending)}, &cluster.Refusal{Reason: v1alpha1.ReasonDataLost, Message: "it has no data"}, metav1.ConditionFalse, v1alpha1.ReasonDataLost, "etcd-main-0 does not start: it has no data; claim",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.Healthy(3)
			s.Ordinals[0].Pod.Refusal = tc.refusal
			c := (&View{claims: tc.claims}).Ready(s)
			if c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestNewestWarning(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	old := corev1.Event{Reason: "Old", LastTimestamp: metav1.NewTime(at(1))}
	event := corev1.Event{Reason: "Once", Message: "over\n two lines", EventTime: metav1.NewMicroTime(at(2))}
	series := corev1.Event{Reason: "Again", EventTime: metav1.NewMicroTime(at(0)), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(3))}}
	for want, events := range map[string][]corev1.Event{
		"":                     nil,
		"Old: ":                {old},
		"Once: over two lines": {old, event},
		"Again: ":              {series, old, event},
	} {
		if got := newestWarning(events); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
