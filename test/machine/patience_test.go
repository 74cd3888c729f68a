// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// listener hears what a test says.
type listener struct {
	testing.TB
	said atomic.Value
}

func (l *listener) Logf(format string, args ...any) {
	l.said.CompareAndSwap(nil, fmt.Sprintf(format, args...))
}

// A test that waits for long says what for, and goes on waiting.
func TestAnAssertionSaysWhatItWaitsFor(t *testing.T) {
	l := &listener{TB: t}
	g := Gomega(t)
	heard := func() bool { return l.said.Load() != nil }
	g.WithT.Eventually(heard).WithContext(waiting{context.Background(), l, time.Millisecond}).Should(gomega.BeTrue())
	g.Expect(l.said.Load()).To(gomega.And(gomega.HavePrefix("still waiting, after 0s:\n"), gomega.ContainSubstring("to be true")))
}

// The context is there for every assertion, but for one that has another, and none waits for ever.
func TestEventuallyHasItsTimeout(t *testing.T) {
	g := Gomega(t)
	g.Eventually(func(ctx context.Context) string { return fmt.Sprintf("%T", ctx.Value("GINKGO_SPEC_CONTEXT")) }).Should(gomega.Equal("machine.waiting"))
	g.Eventually(t.Context(), func(ctx context.Context) any { return ctx.Value("GINKGO_SPEC_CONTEXT") }).Should(gomega.BeNil())
	g.Expect(g.DurationBundle.EnforceDefaultTimeoutsWhenUsingContexts).To(gomega.BeTrue())
	g.Expect(g.DurationBundle.EventuallyTimeout).To(gomega.BeNumerically(">=", 2*time.Minute))
}

// The end of a log is enough to see what a process said last, and leaves room for why the test has failed.
func TestTheEndOfALog(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(end("a\nb\n")).To(gomega.Equal("a\nb"))
	long := end(strings.Repeat(strings.Repeat("x", 999)+"\n", 999) + "last")
	g.Expect(long).To(gomega.HaveSuffix("x\nlast"))
	g.Expect(len(long)).To(gomega.BeNumerically("<", shownLines*(shownWidth+1)))
}
