// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change of the size is over once the operator has applied it, says so, and the StatefulSet agrees.
func TestResized(t *testing.T) {
	etcd := func(change func(*v1alpha1.Etcd)) *v1alpha1.Etcd {
		e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		e.Status.ObservedGeneration, e.Status.ClusterSize = 2, 3
		for _, name := range []string{v1alpha1.ConditionScaled, v1alpha1.ConditionAllMembersReady} {
			e.Status.Conditions.Set(metav1.Condition{Type: name, Status: metav1.ConditionTrue})
		}
		change(e)
		return e
	}
	for name, c := range map[string]struct {
		change   func(*v1alpha1.Etcd)
		replicas int32
		over     bool
	}{
		"it is over":                 {func(*v1alpha1.Etcd) {}, 3, true},
		"replicas remain":            {func(*v1alpha1.Etcd) {}, 4, false},
		"the size is recorded later": {func(e *v1alpha1.Etcd) { e.Status.ClusterSize = 5 }, 3, false},
		"the spec is newer":          {func(e *v1alpha1.Etcd) { e.Generation = 3 }, 3, false},
		"members change":             {func(e *v1alpha1.Etcd) { e.Status.Conditions[0].Status = metav1.ConditionFalse }, 3, false},
		"one is not ready":           {func(e *v1alpha1.Etcd) { e.Status.Conditions[1].Status = metav1.ConditionFalse }, 3, false},
		"nothing is said":            {func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resized(etcd(c.change), c.replicas, 3) == nil; got != c.over {
				t.Errorf("it is over: %v", got)
			}
		})
	}
}
