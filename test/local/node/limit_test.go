// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The files of another user's process can be limited, also where root may not do everything.
func TestLimitFiles(t *testing.T) {
	other := exec.Command("sleep", "60")
	if os.Geteuid() == 0 {
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	for _, size := range []uint64{0, unix.RLIM_INFINITY} {
		if err := limitFiles(other.Process.Pid, size); err != nil {
			t.Fatalf("to %d: %v", size, err)
		}
		var now unix.Rlimit
		if err := unix.Prlimit(other.Process.Pid, unix.RLIMIT_FSIZE, nil, &now); os.Geteuid() != 0 && err != nil {
			t.Fatal(err)
		}
		_ = asOwner(other.Process.Pid, func() error { return unix.Prlimit(other.Process.Pid, unix.RLIMIT_FSIZE, nil, &now) })
		if now.Cur != min(size, now.Max) {
			t.Errorf("the limit is %d, want %d", now.Cur, size)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.WriteFile(t.TempDir()+"/file", []byte("x"), 0o600); err != nil || syscall.Geteuid() != 0 {
			t.Errorf("the test itself is another user: %d %v", syscall.Geteuid(), err)
		}
	}
}
