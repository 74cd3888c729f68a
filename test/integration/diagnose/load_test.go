// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLargeRanges(t *testing.T) {
	recording(t)
	for _, program := range versions("etcd", "etcd-3.5") {
		c := start(t, options{members: 1, program: program, args: []string{"--quota-backend-bytes=4000000000"}})
		c.fill("/registry/configmaps", 40_000, 4000)
		c.writes(20, 1<<10)
		made := c.client(0)
		c.during(4, func(ctx context.Context, _ int) error {
			_, err := made.Get(ctx, "/registry/configmaps", clientv3.WithPrefix())
			return err
		})
		c.expect("large-ranges-"+program, judge.LargeRanges, "One member with 40,000 keys of 4 KB, which four clients list again and again.", 20*time.Second)
		c.kill(0)
	}
}

func TestLargeValues(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, dir: t.TempDir(), args: []string{"--quota-backend-bytes=8000000000"}})
	made := c.client(0)
	value := strings.Repeat("v", 1_000_000)
	c.during(8, func(ctx context.Context, n int) error {
		_, err := made.Put(ctx, fmt.Sprintf("/registry/secrets/s-%d", n%20), value)
		load.Pause(ctx, 50*time.Millisecond)
		return err
	})
	c.expect("large-values", judge.LargeValues, "One member; eight clients write values of 1 MB.", 20*time.Second)
}

func TestWriteStorm(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	made := c.client(0)
	c.during(600, func(ctx context.Context, n int) error {
		_, err := made.Put(ctx, fmt.Sprintf("/registry/events/e-%d", n%5000), "0123456789")
		return err
	})
	c.expect("write-storm", judge.WriteStorm, "One member; 600 clients write without a pause.", 20*time.Second)
}

func TestLeases(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	made := c.client(0)
	c.during(100, func(ctx context.Context, _ int) error {
		_, err := made.Grant(ctx, 2)
		return err
	})
	pauseFor(5 * time.Second)
	c.expect("leases", judge.Leases, "One member; 100 clients grant leases of 2 s without a pause.", 20*time.Second)
}

func TestWatches(t *testing.T) {
	recording(t)
	for _, program := range versions("etcd", "etcd-3.5") {
		c := start(t, options{members: 1, program: program})
		c.stall()
		c.writes(200, 4<<10)
		pauseFor(15 * time.Second)
		c.expect("watches-"+program, judge.Watches, "One member; 500 watchers with prevKV on one stream, which is not read.", 20*time.Second)
		c.kill(0)
	}
}

func TestPasswords(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	admin := c.client(0)
	_, err := admin.UserAdd(t.Context(), "root", "secret")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.RoleAdd(t.Context(), "root")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.UserGrantRole(t.Context(), "root", "root")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.AuthEnable(t.Context())
	c.Expect(err).NotTo(HaveOccurred())
	c.during(6, func(ctx context.Context, _ int) error {
		_, err := admin.Authenticate(ctx, "root", "secret")
		return err
	})
	c.user = "root:secret"
	c.expect("passwords", judge.Passwords, "One member with users; six clients log in again and again.", 20*time.Second)
}
