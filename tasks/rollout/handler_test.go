// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readyBut is a cache in which every pod is ready, unless it says otherwise, and one pod is there.
type readyBut struct {
	not bool
	has types.UID
}

func (r readyBut) AllReady() bool         { return !r.not }
func (r readyBut) Has(pod types.UID) bool { return pod == r.has }

// The API server is read ahead only when it will be needed: requests are counted.
func TestWillAct(t *testing.T) {
	deleted := v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{
		{UID: "first", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted}},
		{UID: "second", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress}},
	}}
	moved := func(ago time.Duration) v1alpha1.RolloutStatus {
		return v1alpha1.RolloutStatus{LeaderHandover: &v1alpha1.LeaderHandover{LastAttemptTime: metav1.Time{Time: noon.Add(-ago)}}}
	}
	for name, c := range map[string]struct {
		recorded v1alpha1.RolloutStatus
		cached   readyBut
		want     bool
	}{
		"everybody is ready":                     {want: true},
		"somebody is not":                        {cached: readyBut{not: true}},
		"the deletion does not show yet":         {recorded: deleted, cached: readyBut{has: "second"}},
		"the successor is ready":                 {recorded: deleted, cached: readyBut{has: "successor"}, want: true},
		"leadership has just been moved":         {recorded: moved(handoverRetry - time.Millisecond)},
		"leadership was moved, which has showed": {recorded: moved(handoverRetry), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(willAct(c.recorded, c.cached, noon)).To(Equal(c.want))
		})
	}
}
