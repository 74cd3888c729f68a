// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

// A learner whose pod was prepared for an earlier member list refuses to start, each time, and says so in the words that the operator looks for.
// Prepared again, as in another pod, it joins.
func TestALearnerThatWasPreparedForAnEarlierList(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"etcd-3.5/etcd", "etcd-3.6/etcd", "etcd"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c := newCluster(t, 2)
			c.etcd = machine.Program(t, program)
			c.share(g, 1)
			c.start(g, 0, "new")
			c.awaitVoters(g, 1)
			c.record(c.id(g))
			c.put(g, "before")
			c.share(g, 2)
			c.add(g, 1)
			g.Expect(c.prepare(1, machine.Patience())).To(Succeed())

			c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
				_, err := etcd.MemberUpdate(ctx, c.memberID(g, 0), []string{c.url(0, c.peer), c.outside(0)})
				return err
			})
			g.Expect(c.refusesList(g, 1)).To(BeTrue(), "a further URL")
			c.remove(g, c.listedID(g, 1))
			g.Expect(c.refusesList(g, 1)).To(BeTrue(), "another number")

			c.add(g, 1)
			c.start(g, 1, "existing")
			g.Eventually(func() string { return c.get(g, 1) }).WithTimeout(machine.Patience()).Should(Equal("before"))
		})
	}
}

// refusesList runs a member until it ends, and reports whether what the kubelet passes on of its log says that it refuses the member list.
func (c *cluster) refusesList(g Gomega, i int) bool {
	const passedOn = 2048
	log, err := os.Create(filepath.Join(c.memberDir(i), "log"))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.etcd, "--config-file="+c.configFile(i))
	cmd.Stderr = log
	g.Expect(cmd.Start()).To(Succeed())
	c.processes[i] = cmd
	code := c.awaitEnd(g, i)
	said, err := os.ReadFile(log.Name())
	g.Expect(err).NotTo(HaveOccurred())
	said = said[max(0, len(said)-passedOn):]
	return observe.ListChanged(&corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Message: string(said)}}})
}
