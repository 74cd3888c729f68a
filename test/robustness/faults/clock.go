// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

const (
	// shift is how far off a clock is.
	shift = 24 * time.Hour
	// Where programs answer with their time, in the header Date of HTTP.
	memberPort, operatorPort = 9095, 8081
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
	var pods []func(context.Context) (clock, error)
	for _, member := range t.members {
		pods = append(pods, func(ctx context.Context) (clock, error) {
			pod, there := m.Roster.Pod(member)
			if !there {
				return clock{}, fmt.Errorf("%s has no pod with an address", member)
			}
			etcd, err := node.Find(ctx, pod.UID, node.Etcd)
			if err != nil {
				return clock{}, err
			}
			c := clock{of: member, url: fmt.Sprintf("http://%s:%d/health", pod.IP, memberPort), programs: []node.Process{etcd}}
			if p, err := node.Find(ctx, pod.UID, agent); err == nil {
				c.programs = append(c.programs, p)
			}
			return c, nil
		})
	}
	return shiftClocks(ctx, t.shift, pods)
}

func shiftOperator(ctx context.Context, m *Machine, t target) (heal, error) {
	return shiftClocks(ctx, t.shift, []func(context.Context) (clock, error){func(ctx context.Context) (clock, error) {
		name, p, err := m.leader(ctx)
		if err != nil {
			return clock{}, err
		}
		pods, err := m.operatorPods(ctx)
		for _, pod := range pods {
			if pod.Name == name {
				url := fmt.Sprintf("http://%s:%d/healthz", pod.Status.PodIP, operatorPort)
				return clock{of: name, url: url, programs: []node.Process{p}}, nil
			}
		}
		return clock{}, errors.Join(err, fmt.Errorf("%s is gone", name))
	}})
}

// clock is the clock of a pod: of the programs that run there now. One of them answers at the URL.
type clock struct {
	of, url  string
	programs []node.Process
}

// shiftClocks shifts the clocks of pods, also of programs that start meanwhile.
func shiftClocks(ctx context.Context, by time.Duration, pods []func(context.Context) (clock, error)) (heal, error) {
	s := shifting{by: by, undo: map[node.Process]func(context.Context) error{}, said: map[string]string{}}
	stop := during(ctx, pods, 300*time.Millisecond, s.shift)
	return func(ctx context.Context) (string, error) {
		stop()
		var failed []error
		for _, undo := range s.undo {
			failed = append(failed, undo(ctx))
		}
		evidence := ""
		if len(s.said) >= len(pods) { // more, if another operator leads meanwhile
			evidence = fmt.Sprintf("%d programs; their answers: %v", len(s.undo), s.said)
		}
		return evidence, errors.Join(failed...)
	}, nil
}

// shifting are the programs whose clocks are shifted, and what they said the time is.
type shifting struct {
	by time.Duration

	mutex sync.Mutex
	undo  map[node.Process]func(context.Context) error
	said  map[string]string
}

// shift shifts the clock of what runs in a pod now, and asks for its time until it has said it once.
func (s *shifting) shift(ctx context.Context, pod func(context.Context) (clock, error)) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := pod(ctx)
	if err != nil {
		return // it is starting, or has ended
	}
	for _, p := range c.programs {
		if !s.has(p) {
			undo, err := p.ShiftClock(ctx, s.by)
			if err != nil {
				return
			}
			s.mutex.Lock()
			s.undo[p] = undo
			s.mutex.Unlock()
		}
	}
	s.mutex.Lock()
	_, said := s.said[c.of]
	s.mutex.Unlock()
	if said {
		return
	}
	if now, err := timeOf(ctx, c.url); err == nil && (time.Until(now)-s.by).Abs() < time.Hour {
		s.mutex.Lock()
		s.said[c.of] = now.Format(time.DateTime)
		s.mutex.Unlock()
	}
}

func (s *shifting) has(p node.Process) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, has := s.undo[p]
	return has
}

// timeOf returns the time that an HTTP server says it is.
func timeOf(ctx context.Context, url string) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	_ = answer.Body.Close()
	return http.ParseTime(answer.Header.Get("Date"))
}
