// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
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
