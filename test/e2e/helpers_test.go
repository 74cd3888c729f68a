//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (c *cluster) task(name, config string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: etcdName}},
	}
}

// after does something after a while, in parallel to the test.
func (c *cluster) after(d time.Duration, do func()) {
	timer := time.AfterFunc(d, do)
	c.t.Cleanup(func() { timer.Stop() })
}

// deleteAndWait deletes a pod and waits for its replacement.
func (c *cluster) deleteAndWait(i int, back func(*corev1.Pod) bool) {
	c.t.Helper()
	old := c.pod(c, i)
	c.Expect(kube.Delete(c.t.Context(), old, client.Preconditions{UID: &old.UID})).To(Succeed())
	c.Eventually(func(g Gomega) {
		pod := c.pod(g, i)
		g.Expect(pod.UID).NotTo(Equal(old.UID))
		g.Expect(back(pod)).To(BeTrue())
	}).Should(Succeed())
}

// member returns a client of a member.
func (c *cluster) member(g Gomega, i int) etcdclient.Client {
	pod, scheme := c.pod(g, i), "http"
	var config *tls.Config
	if c.tls != nil {
		config = c.tls(pod)
	}
	if config != nil {
		scheme = "https"
	}
	m, err := etcdclient.NewDialer().Dial(fmt.Sprintf("%s://%s:2379", scheme, pod.Status.PodIP), config)
	g.Expect(err).NotTo(HaveOccurred())
	return m
}

// status returns the status of a member.
func (c *cluster) status(g Gomega, i int) etcdclient.Status {
	m := c.member(g, i)
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	status, err := m.Status(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return status
}

// servesAgain waits until every member knows the leader.
func (c *cluster) servesAgain() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		for i := range int(c.etcd(g).Spec.Replicas) {
			g.Expect(c.status(g, i).Leader).NotTo(BeZero())
		}
	}).Should(Succeed())
}

// leadBy moves leadership to a member.
func (c *cluster) leadBy(i int) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		wanted := c.status(g, i)
		if wanted.Leader == wanted.MemberID {
			return
		}
		for j := range int(c.etcd(g).Spec.Replicas) {
			if c.status(g, j).MemberID == wanted.Leader {
				m := c.member(g, j)
				defer func() { _ = m.Close() }()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				g.Expect(m.MoveLeader(ctx, wanted.MemberID)).To(Succeed())
			}
		}
		g.Expect(c.status(g, i).Leader).To(Equal(wanted.MemberID))
	}).Should(Succeed())
}
