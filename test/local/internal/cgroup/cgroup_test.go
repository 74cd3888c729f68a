// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"slices"
	"testing"
)

func TestParseMountInfo(t *testing.T) {
	const mountInfo = `24 1 0:21 / /sys rw - sysfs sysfs rw
25 24 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	want := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"}
	if got := parseMountInfo(mountInfo); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
