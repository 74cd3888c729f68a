// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The last member survives, and another one where two are no quorum, which was frozen before.
func TestLost(t *testing.T) {
	for members, want := range map[int][]int{1: nil, 2: {0}, 3: {0, 1}, 4: {1, 2}, 5: {0, 2, 3}, 7: {0, 1, 3, 4, 5}} {
		got := lost(members)
		if !slices.Equal(got, want) {
			t.Errorf("of %d members, %v are lost, want %v", members, got, want)
		}
		for i := range members - 1 {
			if !slices.Contains(got, i) && i >= minority(members) {
				t.Errorf("of %d members, %d survives, and is not behind", members, i)
			}
		}
	}
}

func TestLoseVolumes(t *testing.T) {
	c := &Cluster{Namespace: "robustness", Name: "main", Members: 5}
	kube := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for i := range c.Members {
		kube.WithObjects(
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.pod(i)}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.claim(i)}},
		)
	}
	c.Kube = kube.Build()
	if err := c.loseVolumes(t.Context(), lost(c.Members)); err != nil {
		t.Fatal(err)
	}
	var left []string
	pods, claims := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	if err := c.Kube.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	if err := c.Kube.List(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		left = append(left, p.Name)
	}
	for _, p := range claims.Items {
		left = append(left, p.Name)
	}
	if want := "[main-1 main-4 main-main-1 main-main-4]"; fmt.Sprint(left) != want {
		t.Errorf("left %v, want %s", left, want)
	}
}
