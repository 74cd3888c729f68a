// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"slices"
	"testing"
)

func TestMountsBelow(t *testing.T) {
	const mountInfo = `1 0 8:1 / / rw - ext4 /dev/sda rw
2 1 0:5 / /run/ours rw - tmpfs tmpfs rw
3 2 0:6 / /run/ours/netns/a rw - nsfs nsfs rw
4 1 0:7 / /run/ours-not rw - tmpfs tmpfs rw
5 1 0:8 / /var/lib/ours/pod/volume rw shared:9 - tmpfs tmpfs rw
6 1 0:8 / /var/lib/ours/pod/volume rw shared:9 - tmpfs tmpfs rw
`
	got := mountsBelow(mountInfo, "/run/ours", "/var/lib/ours")
	want := []string{"/var/lib/ours/pod/volume", "/var/lib/ours/pod/volume", "/run/ours/netns/a", "/run/ours"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
