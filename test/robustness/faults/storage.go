// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

func storage() []Kind {
	return []Kind{
		{Name: "disk of a member refuses writes", Longest: 20 * time.Second, EndsEtcd: true, choose: anyMember, inject: refuseWrites},
		{Name: "quota alarm (NOSPACE)", Longest: 30 * time.Second, choose: nothing("the cluster"), inject: raiseAlarm},
	}
}

// refuseWrites lets no write of an etcd to a file succeed, as on a disk that is full or broken: etcd ends itself. It is done to
// every etcd that starts meanwhile.
func refuseWrites(ctx context.Context, m *Machine, t target) (heal, error) {
	p, err := m.process(ctx, t.members[0])
	if err != nil {
		return notInEffect, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err == nil && limitFiles(p.PID(), 0) == nil {
				for p.Alive() && wait(ctx, 50*time.Millisecond) {
				}
				if p.Alive() {
					_ = limitFiles(p.PID(), unix.RLIM_INFINITY) // it has written nothing, or has just ended
					return
				}
				ended++
			}
			wait(ctx, 50*time.Millisecond)
			p, err = m.process(ctx, t.members[0])
		}
	}()
	return func(context.Context) (string, error) {
		cancel()
		<-done
		if ended == 0 {
			return "", nil
		}
		return fmt.Sprintf("etcd ended %d times", ended), nil
	}, nil
}

// limitFiles limits the size of the files that a process writes. The hard limit stays as it is.
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

// disarmPatience is how long the alarm may stay after its time: without a quorum it cannot be taken back.
const disarmPatience = 5 * time.Minute

// raiseAlarm has etcd refuse writes of keys, as one whose database has grown beyond its quota.
func raiseAlarm(ctx context.Context, m *Machine, _ target) (heal, error) {
	raise := func(ctx context.Context, etcd *clientv3.Client) error {
		status, err := etcd.Status(ctx, etcd.Endpoints()[0])
		if err != nil {
			return err
		}
		_, err = pb.NewMaintenanceClient(etcd.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE,
		})
		return err
	}
	if m.onAnyMember(ctx, raise) != nil {
		return notInEffect, nil // there is no quorum
	}
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disarmPatience)
		defer cancel()
		seen := 0
		err := poll(ctx, "the alarm is off", func() (bool, error) {
			err := m.onAnyMember(ctx, func(ctx context.Context, etcd *clientv3.Client) error {
				was, err := etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{})
				if err == nil {
					seen += len(was.Alarms)
				}
				return err
			})
			return err == nil, err
		})
		if seen == 0 {
			return "", err
		}
		return fmt.Sprintf("%d alarms were raised", seen), err
	}, nil
}

// onAnyMember does something through one member after another, until it succeeds.
func (m *Machine) onAnyMember(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	failed := []error{errors.New("no member has an address")}
	for _, pod := range m.Roster.Pods() {
		etcd, err := view.Dial(pod.Address())
		if err == nil {
			asking, cancel := context.WithTimeout(ctx, 2*time.Second)
			err = do(asking, etcd)
			cancel()
			_ = etcd.Close()
		}
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
