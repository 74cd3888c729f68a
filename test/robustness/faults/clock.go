// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/clock"
)

const (
	// shift is how far off a clock is.
	shift = 24 * time.Hour
	// Where programs answer with their time, in the header Date of HTTP.
	etcdPort, agentPort, operatorPort = 9095, 8080, 8081
)

// clocks are shifted for all programs that tell the time in a pod. They stop and continue a process for a moment, so they
// are not combined with other faults that do.
func clocks() []Kind {
	return []Kind{
		{Name: "clock of a member is off", Longest: 60 * time.Second, by: bySignals, choose: eitherWay(anyMember), inject: shiftMember},
		{Name: "clocks of all members are off", Longest: 60 * time.Second, by: bySignals, choose: eitherWay(allMembers), inject: shiftMember},
		{Name: "clock of the operator is off", Longest: 60 * time.Second, SparesWrites: true, by: byOperator, choose: eitherWay(nothing("the leading operator")), inject: shiftOperator},
	}
}

// eitherWay picks a target, and whether its clock is ahead or behind.
func eitherWay(choose func(*Machine, *rand.Rand) target) func(*Machine, *rand.Rand) target {
	return func(m *Machine, random *rand.Rand) target {
		t := choose(m, random)
		t.shift = shift
		if random.IntN(2) == 0 {
			t.shift = -shift
		}
		t.name += fmt.Sprintf(" by %+.0f h", t.shift.Hours())
		return t
	}
}

func shiftMember(ctx context.Context, m *Machine, t target) (heal, error) {
	var pods []func(context.Context) []clock.Program
	for _, member := range t.members {
		pods = append(pods, func(ctx context.Context) []clock.Program {
			pod, there := m.Roster.Pod(member)
			if !there {
				return nil
			}
			var all []clock.Program
			for program, port := range map[string]int{node.Etcd: etcdPort, agent: agentPort} {
				if p, err := node.Find(ctx, pod.UID, program); err == nil {
					all = append(all, clock.Program{Name: program + " of " + member, URL: fmt.Sprintf("http://%s:%d/", pod.IP, port), Process: p})
				}
			}
			return all
		})
	}
	return shiftClocks(ctx, t.shift, pods, 2*len(pods))
}

func shiftOperator(ctx context.Context, m *Machine, t target) (heal, error) {
	return shiftClocks(ctx, t.shift, []func(context.Context) []clock.Program{func(ctx context.Context) []clock.Program {
		name, p, err := m.leader(ctx)
		if err != nil {
			return nil
		}
		pods, _ := m.operatorPods(ctx) // none if the API server does not answer
		for _, pod := range pods {
			if pod.Name == name {
				return []clock.Program{{Name: name, URL: fmt.Sprintf("http://%s:%d/healthz", pod.Status.PodIP, operatorPort), Process: p}}
			}
		}
		return nil
	}}, 1)
}

// shiftPatience bounds one look at the programs of a pod.
const shiftPatience = 2 * time.Second

// shiftClocks shifts the clocks of the programs in pods, also of those that start meanwhile. It was in effect if so many programs
// have said so.
func shiftClocks(ctx context.Context, by time.Duration, pods []func(context.Context) []clock.Program, programs int) (heal, error) {
	shift := &clock.Shift{By: by}
	stop := during(ctx, pods, 300*time.Millisecond, func(ctx context.Context, pod func(context.Context) []clock.Program) {
		ctx, cancel := context.WithTimeout(ctx, shiftPatience)
		defer cancel()
		shift.Begin(ctx, pod(ctx))
	})
	return func(ctx context.Context) (string, error) {
		stop()
		return shift.End(ctx, programs) // there are more if another operator leads meanwhile
	}, nil
}
