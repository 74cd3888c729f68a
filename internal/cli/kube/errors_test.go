// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSentenceAndCode(t *testing.T) {
	etcds := schema.GroupResource{Group: "druid.gardener.cloud", Resource: "etcds"}
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{errors.New("one\n\ttwo"), 1, "one two"},
		{fmt.Errorf("doing: %w", Usage("no %s", "sense")), 2, "doing: no sense"},
		{&Error{ExitTimedOut, errors.New("late")}, 3, "late"},
		{fmt.Errorf("reading: %w", apierrors.NewUnauthorized("who?")), 1, "the API server does not accept your credentials: log in again, or choose another context with --context"},
		{fmt.Errorf("reading: %w", apierrors.NewForbidden(etcds, "a", errors.New("no"))), 1, `not permitted: etcds.druid.gardener.cloud "a" is forbidden: no`},
		{fmt.Errorf("reading: %w", apierrors.NewGenericServerResponse(404, "get", etcds, "a", "404 page not found", 0, true)), 1,
			"the cluster does not know Etcds and EtcdOperatorTasks: install the CRDs of etcd-foreman, or choose another cluster with --context"},
		{&url.Error{Op: "Get", URL: "https://a:6443/apis/x", Err: errors.New("no route to host")}, 1, "the API server at https://a:6443 does not answer: no route to host"},
		{&url.Error{Op: "Get", URL: "https://a:6443/apis/x", Err: context.Canceled}, 1, "interrupted"},
		{apierrors.NewConflict(etcds, "a", errors.New("changed")), 1, `Operation cannot be fulfilled on etcds.druid.gardener.cloud "a": changed`},
	} {
		if got := Code(c.err); got != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.code)
		}
		if c.err == nil {
			continue
		}
		if got := Sentence(c.err); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	if !IsObjectNotFound(apierrors.NewNotFound(etcds, "a")) {
		t.Error("a missing object")
	}
}

// late is a context whose deadline has passed, and which ends only when its end is waited for.
type late struct {
	context.Context
	ended bool
}

func (l *late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }
func (l *late) Done() <-chan struct{} {
	l.ended = true
	done := make(chan struct{})
	close(done)
	return done
}

func (l *late) Err() error {
	if l.ended {
		return context.DeadlineExceeded
	}
	return nil
}

// A request for which there is no time left fails as one does that takes too long.
func TestIsOver(t *testing.T) {
	open, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"without a deadline":      {t.Context(), false},
		"before its deadline":     {open, false},
		"ended":                   {closed, true},
		"its deadline has passed": {&late{Context: t.Context()}, true},
	} {
		if got := IsOver(c.ctx); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
