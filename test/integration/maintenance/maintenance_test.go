// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const both = "{etcdCompaction: true, etcdDefragmentation: true}"

func bytesOf(g Gomega, result map[string]string, key string) int64 {
	n, err := strconv.ParseInt(result[key], 10, 64)
	g.Expect(err).NotTo(HaveOccurred(), "%s: %v", key, result)
	return n
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.fill(c.members.Client(t), 16)
	c.start()
	c.run("m", both)
	done := c.UntilTask("m", v1alpha1.TaskStateSucceeded)
	t.Logf("%+v", done.Status)

	asked := strings.Split(strings.TrimSpace(c.spy.said()), "\n")
	c.Expect(asked).To(HaveLen(4))
	leader, moved := strings.CutPrefix(asked[2], "MoveLeader ")
	c.Expect(moved).To(BeTrue(), asked[2])
	c.Expect(c.spy.said()).NotTo(ContainSubstring("leads: true"))
	c.Expect(asked[3]).To(HavePrefix("Defragment "+leader+","), "the leader is the last")
	for i := range 3 {
		before, after := bytesOf(c, done.Status.Result, fmt.Sprintf("main-%d.bytesBefore", i)), bytesOf(c, done.Status.Result, fmt.Sprintf("main-%d.bytesAfter", i))
		c.Expect(before).To(BeNumerically(">", 32<<20))
		c.Expect(after).To(BeNumerically("<", 18<<20), "the compaction of every member had ended before")
	}
	c.Expect(bytesOf(c, done.Status.Result, "bytesFreed")).To(BeNumerically(">", 3*14<<20))
	c.Expect(done.Status.Progress).To(Equal("3/3"))

	// A second maintenance has nothing to gain.
	c.run("again", both)
	again := c.UntilTask("again", v1alpha1.TaskStateSucceeded)
	c.Expect(again.Status.Result["main-0.skipped"]).To(ContainSubstring("nothing to gain"))
	c.Expect(strings.Count(c.spy.said(), "Defragment")).To(Equal(3))
}

// The cluster has exceeded its quota and refuses writes; after maintenance it accepts them.
func TestNoSpaceIsResolved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, fmt.Sprintf("--quota-backend-bytes=%d", 16<<20))
	etcd := c.members.Client(t)
	// A member updates its size on commit, every 100 ms: on a fast disk, many more than 16 values fit.
	c.Eventually(func() error {
		_, err := etcd.Put(t.Context(), "key", strings.Repeat("x", 1<<20))
		return err
	}).WithPolling(time.Millisecond).Should(MatchError(ContainSubstring("database space exceeded")))
	c.start()
	c.run("m", both)
	done := c.UntilTask("m", v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.Result).To(HaveKeyWithValue("alarmDisarmed", "NOSPACE"))
	_, err := etcd.Put(t.Context(), "key", "value")
	c.Expect(err).NotTo(HaveOccurred())
}

// The status of an Etcd says that etcd has raised an alarm, of which member, and what to do, until the alarm is disarmed.
func TestNoSpaceIsReported(t *testing.T) {
	t.Parallel()
	c := &cluster{Cluster: testEnv.NewCluster(t, name)}
	c.members = testEnv.StartMembers(t, name, []string{t.TempDir()}, fmt.Sprintf("--quota-backend-bytes=%d", 16<<20))
	c.spy = &spy{Dialer: c.members}
	c.Simulate(1)
	c.CreateEtcd(1)
	c.start(composed.Etcds)
	c.Eventually(func(g Gomega) {
		status := c.Status(g)
		g.Expect(status.Ready).To(HaveValue(BeTrue()))
		g.Expect(status.Conditions.Find(v1alpha1.ConditionAlarmRaised)).To(BeNil())
	}).Should(Succeed())
	etcd := c.members.Client(t)
	c.Eventually(func() error {
		_, err := etcd.Put(t.Context(), "key", strings.Repeat("x", 1<<20))
		return err
	}).WithPolling(time.Millisecond).Should(MatchError(ContainSubstring("database space exceeded")))
	c.Eventually(func(g Gomega) {
		status := c.Status(g)
		g.Expect(status.Conditions.IsTrue(v1alpha1.ConditionAlarmRaised)).To(BeTrue())
		g.Expect(status.Conditions.Find(v1alpha1.ConditionAlarmRaised)).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonAlarmNoSpace),
			HaveField("Message", HavePrefix("Alarm NOSPACE of main-0: ")), HaveField("Message", ContainSubstring("kubectl etcdtask defrag main -n "+c.Namespace+" --compaction")))))
	}).Should(Succeed())

	c.run("m", both)
	done := c.UntilTask("m", v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.Result).To(HaveKeyWithValue("alarmDisarmed", "NOSPACE"))
	c.Eventually(func(g Gomega) { g.Expect(c.Status(g).Conditions.Find(v1alpha1.ConditionAlarmRaised)).To(BeNil()) }).Should(Succeed())
}

// The operator stops in the middle of a defragmentation, before or after the request was forwarded.
func TestOperatorStopsDuringDefragmentation(t *testing.T) {
	t.Parallel()
	for name, passOn := range map[string]bool{"before the request reached the member": false, "while the member defragments": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.fill(c.members.Client(t), 8)
			// A member that seems to have nothing to gain is skipped and gets no request.
			go c.keepWriting(c.members.Client(t))
			held := make(chan struct{})
			var holds atomic.Bool
			holds.Store(true)
			c.spy.hold = func(context.Context) error {
				if !holds.CompareAndSwap(true, false) {
					return nil
				}
				close(held)
				if passOn {
					return nil
				}
				return errors.New("the operator is gone")
			}
			stop := c.start()
			c.run("m", both)
			<-held
			stop()
			interrupted := &v1alpha1.EtcdOperatorTask{}
			c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.Namespace, Name: "m"}, interrupted)).To(Succeed())
			c.Expect(interrupted.Status.LastOperation.Name).To(Equal("Defragment"))

			c.start()
			done := c.UntilTask("m", v1alpha1.TaskStateSucceeded)
			c.Expect(done.Status.Result).To(HaveKey("main-2.bytesAfter"))
			asked := strings.Count(c.spy.said(), "Defragment")
			if passOn {
				c.Expect(asked).To(Equal(3), "no member gets the request twice: %s", c.spy.said())
			} else {
				c.Expect(asked).To(Equal(4), "the member that never got the request, again: %s", c.spy.said())
			}
		})
	}
}

func TestNoQuorumNoMaintenance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.members.Endpoints[0] = "http://127.0.0.1:1"
	c.start()
	c.run("m", both)
	rejected := c.UntilTask("m", v1alpha1.TaskStateRejected)
	c.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNoQuorum))
}

func TestDeletionDuringMaintenance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.fill(c.members.Client(t), 4)
	go c.keepWriting(c.members.Client(t))
	held, proceed := make(chan struct{}, 9), make(chan struct{})
	c.spy.hold = func(ctx context.Context) error {
		held <- struct{}{}
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.start()
	c.run("first", both)
	<-held
	c.run("second", "etcdDefragmentation: true")
	first := &v1alpha1.EtcdOperatorTask{}
	c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.Namespace, Name: "first"}, first)).To(Succeed())
	c.Expect(testEnv.Client.Delete(t.Context(), first, client.Preconditions{UID: &first.UID})).To(Succeed())
	close(proceed)
	c.UntilTask("second", v1alpha1.TaskStateSucceeded)
}

// The request to a member that takes longer than spec.etcd.etcdDefragTimeout is given up: the task reports that and checks
// the outcome later.
func TestDefragmentationTakesTooLong(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	before := c.Etcd.DeepCopy()
	c.Etcd.Spec.Etcd.EtcdDefragTimeout = &metav1.Duration{Duration: machine.Scaled(time.Second)}
	c.Expect(testEnv.Client.Patch(t.Context(), c.Etcd, client.MergeFrom(before))).To(Succeed())
	c.fill(c.members.Client(t), 4)
	go c.keepWriting(c.members.Client(t))
	var holds atomic.Bool
	holds.Store(true)
	c.spy.hold = func(ctx context.Context) error {
		if !holds.CompareAndSwap(true, false) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	c.start()
	c.run("m", both)
	done := c.UntilTask("m", v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.LastErrors).To(ContainElement(HaveField("Code", v1alpha1.ErrMaintenance)))
	c.Expect(done.Status.Result).To(HaveKey("main-0.bytesAfter"))
}
