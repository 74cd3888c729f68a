// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
	"github.com/prometheus/procfs"
)

// ShiftClock has the process see a time of day that is off by whole seconds, until it is undone. The monotonic clock goes on
// as it did, as it does when somebody sets the clock of a machine. It is no error to undo it once the process has ended.
//
// Programs ask the vDSO for the time, code that the kernel maps into every process. Its function is made to jump to one that
// asks the kernel and adds the shift, in the copy of this process: no other sees a difference. This works for static programs
// too, such as those that are written in Go, which no preloaded library reaches. It is there for amd64 only.
func (p Process) ShiftClock(ctx context.Context, by time.Duration) (undo func(context.Context) error, err error) {
	before, err := p.patchClock(ctx, func(v *vdso) ([]byte, error) {
		code, err := shifted(by, v.free, v.clock)
		if err != nil {
			return nil, err
		}
		return code.jump, v.write(v.free, code.function)
	})
	if err != nil {
		return nil, fmt.Errorf("shifting the clock of %s: %w", p, err)
	}
	return func(ctx context.Context) error {
		_, err := p.patchClock(ctx, func(*vdso) ([]byte, error) { return before, nil })
		if err != nil && p.Alive() {
			return fmt.Errorf("setting the clock of %s right: %w", p, err)
		}
		return nil
	}, nil
}

// patchClock replaces the first bytes of the function that tells the time, while no thread is between them, and returns what
// was there before.
func (p Process) patchClock(ctx context.Context, change func(*vdso) ([]byte, error)) (before []byte, err error) {
	v, err := openVDSO(p.PID())
	if err != nil {
		return nil, err
	}
	defer v.memory.Close() //nolint:errcheck // every write has been answered
	first, err := change(v)
	if err != nil {
		return nil, err
	}
	err = poll.Until(ctx, func() (bool, error) {
		stopped, err := p.identity.Stopped()
		if err != nil {
			return false, err
		}
		if !stopped {
			if err := p.Freeze(ctx); err != nil {
				return false, err
			}
			defer p.Thaw(context.WithoutCancel(ctx)) //nolint:errcheck // it has ended
		}
		if inside, err := v.within(v.clock, len(first)); err != nil || inside {
			return false, err
		}
		before = make([]byte, len(first))
		if _, err := v.memory.ReadAt(before, int64(v.clock)); err != nil {
			return false, err
		}
		return true, v.write(v.clock, first)
	})
	return before, err
}

// vdso is the code of the kernel in the memory of a process.
type vdso struct {
	pid    int
	memory *os.File
	// from and to are where it is mapped, clock is its function that tells the time, and free is behind its code.
	from, to, clock, free uint64
}

func openVDSO(pid int) (*vdso, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	maps, err := proc.ProcMaps()
	if err != nil {
		return nil, err
	}
	v := &vdso{pid: pid}
	for _, m := range maps {
		if m.Pathname == "[vdso]" {
			v.from, v.to = uint64(m.StartAddr), uint64(m.EndAddr)
		}
	}
	if v.from == 0 {
		return nil, errors.New("it has no vDSO")
	}
	if v.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := v.find(); err != nil {
		_ = v.memory.Close()
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	return v, nil
}

// find finds the function that tells the time, and room for another one.
func (v *vdso) find() error {
	image := make([]byte, v.to-v.from)
	if _, err := v.memory.ReadAt(image, int64(v.from)); err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			v.clock = v.from + s.Value
		}
	}
	const aligned = 16
	for _, part := range file.Progs {
		if part.Type == elf.PT_LOAD {
			v.free = v.from + (part.Vaddr+part.Memsz+aligned-1)/aligned*aligned
		}
	}
	if v.clock == 0 || v.free == 0 || v.free+uint64(len(clockCode)) > v.to {
		return errors.New("it has no function that tells the time, or no room for another")
	}
	return nil
}

// write writes into the copy of this process; the first write makes it.
func (v *vdso) write(at uint64, data []byte) error {
	_, err := v.memory.WriteAt(data, int64(at))
	return err
}

// within reports whether a thread of a stopped process is between the first and the last of some bytes.
func (v *vdso) within(first uint64, count int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", v.pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("no thread of process %d is there: %w", v.pid, errors.Join(err, os.ErrNotExist))
	}
	for _, thread := range threads {
		line, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		// The last field is the address that the thread is at. One that still runs has none.
		fields := strings.Fields(string(line))
		var at uint64
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &at); err != nil || at > first && at < first+uint64(count) {
			return true, nil
		}
	}
	return false, nil
}

// clockCode is the function that tells a shifted time, for amd64. Its first eight bytes are the shift in seconds.
var clockCode = []byte{
	0, 0, 0, 0, 0, 0, 0, 0,
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov $228, %eax: clock_gettime(clock %rdi, result %rsi)
	0x0f, 0x05, // syscall
	0x85, 0xc0, // test %eax, %eax
	0x75, 0x13, // jne end: it failed
	0x85, 0xff, // test %edi, %edi
	0x74, 0x05, // je add: CLOCK_REALTIME
	0x83, 0xff, 0x05, // cmp $5, %edi
	0x75, 0x0a, // jne end: not CLOCK_REALTIME_COARSE either
	0x48, 0x8b, 0x0d, 0xdd, 0xff, 0xff, 0xff, // add: mov shift(%rip), %rcx
	0x48, 0x01, 0x0e, // add %rcx, (%rsi): the seconds of the result
	0xc3, // end: ret
}

// entry is where the instructions of clockCode begin.
const entry = 8

// shiftedClock is a function that tells a shifted time, and the instruction that jumps to it.
type shiftedClock struct{ function, jump []byte }

// shifted returns the code of a function at an address, and the jump to it from another.
func shifted(by time.Duration, at, from uint64) (shiftedClock, error) {
	if runtime.GOARCH != "amd64" {
		return shiftedClock{}, fmt.Errorf("there is no code for %s", runtime.GOARCH)
	}
	function := bytes.Clone(clockCode)
	binary.LittleEndian.PutUint64(function, uint64(int64(by/time.Second)))
	jump := make([]byte, 5)
	jump[0] = 0xe9
	binary.LittleEndian.PutUint32(jump[1:], uint32(int32(int64(at+entry)-int64(from)-int64(len(jump)))))
	return shiftedClock{function: function, jump: jump}, nil
}
