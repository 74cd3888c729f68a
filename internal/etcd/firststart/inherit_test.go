// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(after))}
}

func TestInherits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bootstrapping)
		want   bool
	}{
		"its claims are younger":         {func(*bootstrapping) {}, true},
		"a claim of the same second":     {func(b *bootstrapping) { b.claims[1].ObjectMeta = at(0) }, true},
		"no claim yet":                   {func(b *bootstrapping) { b.claims = nil }, true},
		"a claim is older":               {func(b *bootstrapping) { b.claims[1].ObjectMeta = at(-time.Second) }, false},
		"permitted already":              {func(b *bootstrapping) { b.permitted = true }, false},
		"it has served":                  {func(b *bootstrapping) { b.served = true }, false},
		"no member runs":                 {func(b *bootstrapping) { b.set.Spec.Replicas = ptr.To(int32(0)) }, false},
		"there is no StatefulSet by now": {func(b *bootstrapping) { b.set = nil }, false},
	} {
		b := bootstrapping{
			set:    &appsv1.StatefulSet{ObjectMeta: at(0), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(3))}},
			claims: []corev1.PersistentVolumeClaim{{ObjectMeta: at(time.Second)}, {ObjectMeta: at(time.Minute)}},
		}
		c.change(&b)
		if got := b.inherits(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A claim that waits for its first pod holds nothing, unless it is made from another volume.
func TestMayHold(t *testing.T) {
	for name, c := range map[string]struct {
		spec corev1.PersistentVolumeClaimSpec
		want bool
	}{
		"without a volume":        {corev1.PersistentVolumeClaimSpec{}, false},
		"with a volume":           {corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, true},
		"from a snapshot":         {corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot"}}, true},
		"from a populated volume": {corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{Kind: "Backup"}}, true},
	} {
		if got := mayHold(&corev1.PersistentVolumeClaim{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
