// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package clock shifts the clocks of programs, and asks them for the time.
package clock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

// Program is a process that runs now, and what it is, such as etcd of a member. It answers at the URL.
type Program struct {
	Name, URL string
	Process   node.Process
}

// Shift is the processes whose clocks are shifted by a time, and what the programs said the time is.
type Shift struct {
	By time.Duration

	mutex sync.Mutex
	undo  map[node.Process]func(context.Context) error
	said  map[string]string
}

// Begin shifts the clocks of programs that it does not know yet, and asks each for its time until it has said it once. It can be
// repeated, also for several programs at once.
func (s *Shift) Begin(ctx context.Context, programs []Program) {
	for _, p := range programs {
		if !s.has(p.Process) {
			undo, err := p.Process.ShiftClock(ctx, s.By)
			if err != nil {
				continue // it has just ended
			}
			s.set(func() { s.undo[p.Process] = undo })
		}
		if s.hasSaid(p.Name) {
			continue
		}
		if now, err := timeOf(ctx, p.URL); err == nil && (time.Until(now)-s.By).Abs() < time.Hour {
			s.set(func() { s.said[p.Name] = now.Format(time.DateTime) })
		}
	}
}

// End sets all clocks right. The evidence is what so many programs have said, or more; else it is empty.
func (s *Shift) End(ctx context.Context, programs int) (evidence string, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failed []error
	for _, undo := range s.undo {
		failed = append(failed, undo(ctx))
	}
	if len(s.said) >= programs {
		evidence = fmt.Sprintf("%d processes; their answers: %v", len(s.undo), s.said)
	}
	return evidence, errors.Join(failed...)
}

func (s *Shift) set(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.undo == nil {
		s.undo, s.said = map[node.Process]func(context.Context) error{}, map[string]string{}
	}
	change()
}

func (s *Shift) has(p node.Process) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, has := s.undo[p]
	return has
}

func (s *Shift) hasSaid(program string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, has := s.said[program]
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
