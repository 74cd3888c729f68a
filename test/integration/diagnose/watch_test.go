// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// A watch sees every change that is made while it lasts, also of the size that etcd accepts at most, and ends when it is told to.
func TestWatch(t *testing.T) {
	c := start(t, options{members: 1})
	c.writes(50, 1<<10)
	made := c.client()
	c.during(1, func(context.Context, int) error { return c.put("/registry/secrets/large", 1_500_000) })
	seen, largest, revision := 0, int64(0), int64(0)
	c.Expect(c.dial(0).(etcdclient.Watcher).Watch(t.Context(), func(change etcdclient.Change) bool {
		if revision > 0 {
			c.Expect(change.Revision).To(Equal(revision + 1))
		}
		seen, largest, revision = seen+1, max(largest, change.Bytes), change.Revision
		return seen < 50 || largest < 1_500_000
	})).To(Succeed())

	_, err := made.Delete(t.Context(), "/registry/secrets/large")
	c.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	err = c.dial(0).(etcdclient.Watcher).Watch(ctx, func(etcdclient.Change) bool { cancel(); return true })
	c.Expect(err).To(MatchError(ContainSubstring("canceled")))
}

// A member that knows no leader sends no changes: a watch of it fails, also while it lasts, rather than report that nothing is written.
func TestWatchOfAMemberWithoutALeader(t *testing.T) {
	c := start(t, options{members: 3})
	left := c.dial(0).(etcdclient.Watcher)
	watch := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), machine.Scaled(10*time.Second))
		defer cancel()
		return left.Watch(ctx, func(etcdclient.Change) bool { return true })
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Watch(t.Context(), func(etcdclient.Change) bool { return true }) }()
	c.kill(1)
	c.kill(2)
	c.Eventually(watch).WithTimeout(machine.Patience()).Should(MatchError(ContainSubstring("no leader")))
	c.Eventually(ended).WithTimeout(machine.Patience()).Should(Receive(MatchError(ContainSubstring("no leader"))))
}

// A member that stands still before it has begun to watch says nothing at all, rather than that nothing is written.
func TestWatchOfAMemberThatStandsStill(t *testing.T) {
	c := start(t, options{members: 1})
	still := c.dial(0).(etcdclient.Watcher)
	c.Expect(still.(etcdclient.Client).Read(t.Context(), false)).To(Succeed(), "it is connected")
	pid := c.members[0].process.Pid
	c.Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
	// On a busy machine another of its threads goes on until the one that has got the signal runs.
	c.Eventually(func() ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) }).Should(ContainSubstring(") T "))
	ctx, cancel := context.WithTimeout(t.Context(), machine.Scaled(20*time.Second))
	defer cancel()
	c.Expect(still.Watch(ctx, func(etcdclient.Change) bool { return true })).To(MatchError(etcdclient.ErrNotWatched))
}
