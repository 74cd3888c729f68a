// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"slices"
	"testing"

	"github.com/prometheus/procfs"
)

func TestMountsBelow(t *testing.T) {
	var mounts []*procfs.MountInfo
	for _, point := range []string{"/", "/run/ours", "/run/ours/netns/a", "/run/ours-not", "/var/lib/ours/pod/volume", "/var/lib/ours/pod/volume"} {
		mounts = append(mounts, &procfs.MountInfo{MountPoint: point})
	}
	got := mountsBelow(mounts, "/run/ours", "/var/lib/ours")
	want := []string{"/var/lib/ours/pod/volume", "/var/lib/ours/pod/volume", "/run/ours/netns/a", "/run/ours"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
