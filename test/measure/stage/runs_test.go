// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestRestarts(t *testing.T) {
	pod := func(uid types.UID, etcd int32) run {
		return runOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: v1alpha1.ContainerBackupRestore, RestartCount: 7}, {Name: v1alpha1.ContainerEtcd, RestartCount: etcd},
		}}})
	}
	before := Runs{"m-0": pod("a", 1), "m-1": pod("b", 0)}
	for name, test := range map[string]struct {
		later Runs
		want  int
	}{
		"none":                     {Runs{"m-0": pod("a", 1), "m-1": pod("b", 0)}, 0},
		"in its pod":               {Runs{"m-0": pod("a", 3), "m-1": pod("b", 0)}, 2},
		"with a new pod":           {Runs{"m-0": pod("a", 1), "m-1": pod("c", 0)}, 1},
		"with a pod that restarts": {Runs{"m-0": pod("a", 1), "m-1": pod("c", 2)}, 3},
	} {
		if got := before.RestartsUntil(test.later); got != test.want {
			t.Errorf("%s: %d restarts, want %d", name, got, test.want)
		}
	}
}
