// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The StatefulSet controller takes over when every member participates according to the API server. With a stale cache
// it would delete the next pod while one is missing.
func TestHandOverIsDecidedOnLiveReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	on.stop()
	behind := testEnv.Lag(t, w.Namespace, &corev1.PodList{})
	w.Kubelet.Set(pod(1), env.NotReady)
	w.Eventually(func() bool { return w.Up(1) }).Should(BeFalse())
	w.Members.Up = func(int) bool { return true } // the member answers, and only the API server says that its pod is not ready

	off := w.start(composition.GateOff, reading(func(client.Client) client.Client { return behind }))
	for range 3 {
		w.nudge(off)
		w.Expect(w.strategy()).To(Satisfy(onDelete))
	}
	w.Kubelet.Set(pod(1), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}
