// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package machine is what tests ask of the machine that they run on: time, programs, files and addresses. It needs no Kubernetes.
package machine

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// Patience is for how long a test waits for what has to come about: two minutes, and longer on a machine that is busy.
func Patience() time.Duration { return Scaled(2 * time.Minute) }

// sayAfter is after how long a test that waits says what for.
const sayAfter = 30 * time.Second

// WithT are assertions that wait with Patience, and say in the log of the test what they wait for if that takes long: what has been lost
// would seem to hang until then.
type WithT struct {
	*gomega.WithT
	t testing.TB
}

// Gomega returns assertions that wait with Patience.
func Gomega(t testing.TB) *WithT {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(Patience())
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	g.EnforceDefaultTimeoutsWhenUsingContexts()
	return &WithT{g, t}
}

// Eventually is gomega's.
func (w *WithT) Eventually(actual any, extra ...any) gomega.AsyncAssertion {
	a := w.WithT.Eventually(actual, extra...)
	if _, ok := actual.(context.Context); ok {
		return a
	}
	return a.WithContext(waiting{context.Background(), w.t, sayAfter})
}

// waiting is a context by which gomega says what an assertion waits for, as it does for Ginkgo.
type waiting struct {
	context.Context
	t     testing.TB
	after time.Duration
}

// Value implements context.Context.
func (w waiting) Value(key any) any {
	if key == "GINKGO_SPEC_CONTEXT" {
		return w
	}
	return w.Context.Value(key)
}

// AttachProgressReporter is called by gomega before it waits; the function that it returns, afterwards.
func (w waiting) AttachProgressReporter(state func() string) (detach func()) {
	began, over := time.Now(), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for pause := w.after; ; pause *= 2 {
			select {
			case <-over:
				return
			case <-time.After(pause):
				w.t.Logf("still waiting, after %s:\n%s", time.Since(began).Round(time.Second), state())
			}
		}
	})
	return func() {
		close(over)
		ended.Wait()
	}
}

// Scaled returns a time that suits an idle machine, or as many times that as the machine has work for each of its processors, up to eight
// times. It is for deadlines that are not what is tested: only the machine decides them.
func Scaled(idle time.Duration) time.Duration {
	busy := min(max(load()/float64(runtime.NumCPU()), 1), 8)
	return time.Duration(busy * float64(idle))
}

// load returns how much the machine has to do: the number of processes that run or could, now or on average over the last minute, whichever
// is more. It is 0 where the machine does not say.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	fields := strings.FieldsFunc(string(content), func(r rune) bool { return r == ' ' || r == '/' })
	var most float64
	for i, field := range fields {
		if value, err := strconv.ParseFloat(field, 64); err == nil && (i == 0 || i == 3) {
			most = max(most, value)
		}
	}
	return most
}
