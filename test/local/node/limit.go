// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// LimitFiles limits the size of the files that the process writes, in bytes: with 0 it can write none. The hard limit stays as it
// is.
func (p Process) LimitFiles(size uint64) error {
	return limitFiles(p.PID(), size)
}

func limitFiles(pid int, size uint64) error {
	return asOwner(pid, func() error {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &now); err != nil {
			return err
		}
		now.Cur = min(size, now.Max)
		return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &now, nil)
	})
}

// asOwner does something as the user and group of a process: where root has no CAP_SYS_RESOURCE, only they may limit it. It
// runs on a thread that ends with it.
func asOwner(pid int, do func() error) error {
	owner, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return err
	}
	of := owner.Sys().(*syscall.Stat_t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			// The functions of the standard library change all threads.
			uid, gid := uintptr(of.Uid), uintptr(of.Gid)
			if _, _, failed := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); failed != 0 {
				return failed
			}
			if _, _, failed := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); failed != 0 {
				return failed
			}
			return do()
		}()
	}()
	return <-done
}
