// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func setOf(replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(replicas)}}
}

func TestStartsOrStopsAll(t *testing.T) {
	for name, tc := range map[string]struct {
		set      *appsv1.StatefulSet
		replicas int32
		want     bool
	}{
		"stops all":                           {setOf(3), 0, true},
		"starts all":                          {setOf(0), 3, true},
		"stays":                               {setOf(3), 3, false},
		"stays at zero":                       {setOf(0), 0, false},
		"grows":                               {setOf(1), 2, false},
		"is made":                             {nil, 3, true},
		"is created, and adopts running pods": {nil, 0, true},
		"defaulted replicas":                  {&appsv1.StatefulSet{}, 0, true},
	} {
		if got := startsOrStopsAll(tc.set, tc.replicas); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOutdated(t *testing.T) {
	sleepy := func(e *v1alpha1.Etcd) {
		e.Spec.Replicas = 0
		e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	}
	for name, tc := range map[string]struct {
		cached, live func(*v1alpha1.Etcd)
		says         string
	}{
		"nothing":       {nil, nil, ""},
		"replicas":      {nil, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }, "spec has changed"},
		"a label":       {nil, func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} }, "spec has changed"},
		"suspension":    {nil, func(e *v1alpha1.Etcd) { annotateEtcd(e, v1alpha1.AnnotationSuspendSpecReconcile) }, "suspended"},
		"its ID":        {nil, func(e *v1alpha1.Etcd) { e.Status.ClusterID = "beef" }, "another one"},
		"its size":      {nil, func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 5 }, "another size"},
		"a recovery":    {nil, func(e *v1alpha1.Etcd) { e.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "task"} }, "recovered"},
		"a hibernation": {nil, func(e *v1alpha1.Etcd) { e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job"} }, "hibernated"},
		"a wake-up":     {func(e *v1alpha1.Etcd) { e.Status.Hibernation = &v1alpha1.Hibernation{ID: "job"} }, nil, "woken up"},
		"its backup": {sleepy, func(e *v1alpha1.Etcd) {
			sleepy(e)
			e.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionBackupReady, Status: metav1.ConditionFalse})
		}, "backups"},
		"irrelevant fields": {nil, func(e *v1alpha1.Etcd) { e.Status.ReadyReplicas, e.Generation = 2, 7 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cached, live := &v1alpha1.Etcd{}, &v1alpha1.Etcd{}
			for e, change := range map[*v1alpha1.Etcd]func(*v1alpha1.Etcd){cached: tc.cached, live: tc.live} {
				e.Spec.Replicas, e.Status.ClusterID, e.Status.ClusterSize = 3, "cafe", 3
				if change != nil {
					change(e)
				}
			}
			why := outdated(cached, live, setOf(3))
			if tc.says == "" {
				g.Expect(why).To(BeEmpty())
				return
			}
			g.Expect(why).To(ContainSubstring(tc.says))
		})
	}
}

func annotateEtcd(e *v1alpha1.Etcd, key string) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, "") }

// A write is permitted if the StatefulSet is still the one that the decision was based on, and the decision is recent.
func TestPermit(t *testing.T) {
	ago := func(d time.Duration) *state.Live {
		now := clocktesting.NewFakePassiveClock(noon.Add(-d))
		reads := state.Access{Clock: now}.Live()
		now.SetTime(noon)
		return &reads
	}
	for name, tc := range map[string]struct {
		s    Change
		base *appsv1.StatefulSet
		want bool
	}{
		"nothing starts or stops":          {Change{set: setOf(3)}, setOf(3), true},
		"another client scaled it up":      {Change{set: setOf(0)}, setOf(3), false},
		"another client scaled it to zero": {Change{set: setOf(3), reads: ago(0)}, setOf(0), false},
		"another client created it":        {Change{reads: ago(0)}, setOf(3), false},
		"another client deleted it":        {Change{set: setOf(3)}, nil, false},
		"confirmed":                        {Change{set: setOf(3), reads: ago(4 * time.Second)}, setOf(3), true},
		"confirmed, and created":           {Change{reads: ago(time.Second)}, nil, true},
		"confirmed too long ago":           {Change{set: setOf(3), reads: ago(5 * time.Second)}, setOf(3), false},
	} {
		tc.s.etcd = &v1alpha1.Etcd{}
		if err := tc.s.Permit(t.Context(), tc.base); (err == nil) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
