// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package background

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

func TestACallOutlastsItsReconcile(t *testing.T) {
	g := machine.Gomega(t)
	c := &Requests[int]{}
	_, known := c.Of("task")
	g.Expect(known).To(BeFalse())

	ctx, cancel := context.WithCancel(t.Context())
	proceed := make(chan struct{})
	c.Start(ctx, "task", "first", time.Minute, func(ctx context.Context) (int, error) {
		<-proceed
		return 1, ctx.Err()
	})
	cancel()
	call, known := c.Of("task")
	g.Expect(known).To(BeTrue())
	g.Expect(call).To(Equal(Request[int]{Name: "first", Running: true}))

	c.Start(t.Context(), "task", "second", time.Minute, func(context.Context) (int, error) { return 2, nil })
	close(proceed)
	g.Eventually(func() Request[int] { call, _ := c.Of("task"); return call }).
		Should(Equal(Request[int]{Name: "first", Result: 1}), "one call at a time, and it outlasts its reconcile")
}

func TestACallEnds(t *testing.T) {
	for name, end := range map[string]func(*Requests[int]){
		"by its timeout":       func(*Requests[int]) {},
		"when it is forgotten": func(c *Requests[int]) { c.Forget("task") },
	} {
		t.Run(name, func(t *testing.T) {
			g := machine.Gomega(t)
			c := &Requests[int]{}
			failed := make(chan error, 1)
			c.Start(t.Context(), "task", "x", 10*time.Millisecond, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				failed <- ctx.Err()
				return 0, ctx.Err()
			})
			end(c)
			g.Eventually(failed).Should(Receive(HaveOccurred()))
			g.Eventually(func() bool {
				call, known := c.Of("task")
				return !known || errors.Is(call.Err, context.DeadlineExceeded)
			}).Should(BeTrue())
		})
	}
}
