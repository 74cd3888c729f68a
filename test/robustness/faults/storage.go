// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"time"

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
			if err == nil && p.LimitFiles(0) == nil {
				for p.Alive() && wait(ctx, 50*time.Millisecond) {
				}
				if p.Alive() {
					_ = p.LimitFiles(unix.RLIM_INFINITY) // it has written nothing, or has just ended
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
	_ = m.Roster.OnAny(ctx, raise) // without a quorum it is not raised, or perhaps later: it is taken back in any case
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disarmPatience)
		defer cancel()
		seen := 0
		err := poll(ctx, "the alarm is off", func() (bool, error) {
			err := m.Roster.OnAny(ctx, func(ctx context.Context, etcd *clientv3.Client) error {
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
