// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package killed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// stopsAtCalls is what the kernel adds to the signal of a stop at a system call.
const stopsAtCalls = 0x80

// changing are the calls that change folders, and writing those that write to a file.
var (
	changing = map[uint64]string{
		syscall.SYS_RENAME: "rename", syscall.SYS_RENAMEAT: "renameat", 316: "renameat2", syscall.SYS_UNLINK: "unlink", syscall.SYS_UNLINKAT: "unlinkat",
		syscall.SYS_RMDIR: "rmdir", syscall.SYS_MKDIR: "mkdir", syscall.SYS_MKDIRAT: "mkdirat", syscall.SYS_LINK: "link", syscall.SYS_LINKAT: "linkat",
		syscall.SYS_SYMLINK: "symlink", syscall.SYS_SYMLINKAT: "symlinkat", syscall.SYS_TRUNCATE: "truncate", syscall.SYS_FTRUNCATE: "ftruncate", syscall.SYS_FALLOCATE: "fallocate",
	}
	writing = map[uint64]string{syscall.SYS_WRITE: "write", syscall.SYS_PWRITE64: "pwrite64", 326: "copy_file_range", syscall.SYS_SENDFILE: "sendfile"}
)

// tracer follows the threads of a process.
type tracer struct {
	pid, at, stride int
	// inside are the threads that are in a system call.
	inside map[int]bool
	// calls counts those that change something, and plain those of them that only write.
	calls, plain int
}

// run runs a command until its at-th call that changes files, and kills it there. It returns the call; empty if the command ended before.
func run(cmd *exec.Cmd, at, stride int) (call string, err error) {
	// All requests about a traced process must come from the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting a process to trace: %w", err)
	}
	t := &tracer{pid: cmd.Process.Pid, at: at, stride: stride, inside: map[int]bool{}}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &status, 0, nil); err != nil {
		return "", fmt.Errorf("waiting for the process: %w", err)
	}
	if err := syscall.PtraceSetOptions(t.pid, syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACESYSGOOD); err != nil {
		return "", fmt.Errorf("tracing the process: %w", err)
	}
	if err := syscall.PtraceSyscall(t.pid, 0); err != nil {
		return "", fmt.Errorf("tracing the process: %w", err)
	}
	return t.follow()
}

// follow lets the threads go on from stop to stop.
func (t *tracer) follow() (killedAt string, err error) {
	for {
		var status syscall.WaitStatus
		thread, err := syscall.Wait4(-t.pid, &status, syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return "", fmt.Errorf("waiting for a thread: %w", err)
		case thread == t.pid && status.Signaled():
			return killedAt, nil
		case thread == t.pid && status.Exited():
			if killedAt == "" && status.ExitStatus() != 0 {
				return "", fmt.Errorf("the process exited with %d", status.ExitStatus())
			}
			return killedAt, nil
		case !status.Stopped():
			continue
		}
		if killedAt == "" && t.stopped(thread, status) {
			killedAt = t.name(thread)
			if err := syscall.Kill(t.pid, syscall.SIGKILL); err != nil {
				return "", fmt.Errorf("killing the process: %w", err)
			}
			continue
		}
		// A thread that is killed meanwhile cannot go on.
		_ = syscall.PtraceSyscall(thread, signal(status))
	}
}

// signal is what a thread that was stopped is given: its signal, unless that was the tracer's.
func signal(status syscall.WaitStatus) int {
	switch s := status.StopSignal(); s {
	case syscall.SIGTRAP | stopsAtCalls, syscall.SIGTRAP, syscall.SIGSTOP:
		return 0
	default:
		return int(s)
	}
}

// stopped reports whether a thread is at the call to be killed at.
func (t *tracer) stopped(thread int, status syscall.WaitStatus) bool {
	if status.StopSignal() != syscall.SIGTRAP|stopsAtCalls {
		return false
	}
	t.inside[thread] = !t.inside[thread]
	if !t.inside[thread] || !t.changes(thread) {
		return false
	}
	t.calls++
	return t.calls == t.at
}

// changes reports whether the call of a thread counts.
func (t *tracer) changes(thread int) bool {
	var r syscall.PtraceRegs
	if syscall.PtraceGetRegs(thread, &r) != nil {
		return false
	}
	switch {
	case changing[r.Orig_rax] != "":
		return true
	case r.Orig_rax == syscall.SYS_OPENAT:
		return r.Rdx&(syscall.O_CREAT|syscall.O_TRUNC) != 0
	case writing[r.Orig_rax] != "" && t.isFile(r.Rdi):
		t.plain++
		return t.plain%t.stride == 0
	}
	return false
}

// isFile reports whether a descriptor is a file on a disk.
func (t *tracer) isFile(descriptor uint64) bool {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(descriptor)))
	return err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/proc/")
}

// name describes the call of a thread.
func (t *tracer) name(thread int) string {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &r); err != nil {
		return err.Error()
	}
	name := changing[r.Orig_rax] + writing[r.Orig_rax]
	if r.Orig_rax == syscall.SYS_OPENAT {
		name = "openat"
	}
	return fmt.Sprintf("%s %d", name, t.calls)
}
