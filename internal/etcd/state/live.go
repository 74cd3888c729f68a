// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxReadAge is the maximum age of a live read on which all members are stopped or started. It is well below the duration of the
// leader-election lease: after a longer pause, another operator may have taken over.
const MaxReadAge = 4 * time.Second

// ErrBehind ends a reconcile: something was just changed, or the cache is behind the API server, and the next decision has to see it. It is
// not a failure.
var ErrBehind = errors.New("the cache is behind: something has changed and has to be seen first")

// behind is an ErrBehind that says what has to be seen first. If that lasts, the status has the text.
type behind struct{ text string }

func (b behind) Error() string   { return b.text }
func (behind) Is(err error) bool { return err == ErrBehind }

// Awaits returns an ErrBehind that says what has to be seen first.
func Awaits(format string, args ...any) error { return behind{fmt.Sprintf(format, args...)} }

// Behind logs why the cache is behind, and returns an ErrBehind that says it.
func Behind(ctx context.Context, format string, args ...any) error {
	err := Awaits(format, args...)
	ctrl.LoggerFrom(ctx).Info("Doing nothing, because the cache is behind the API server", "reason", err.Error())
	return err
}

// Live reads from the API server what members are stopped, started or instructed on. Its reads are valid for MaxReadAge.
type Live struct {
	client.Reader
	clock clock.PassiveClock
	since time.Time
}

// Live begins a series of reads from the API server.
func (a Access) Live() Live { return Live{a.API, a.Clock, a.Clock.Now()} }

// Fresh returns ErrBehind if the reads are too old to act on: the operator was paused, or its requests took too long.
func (l Live) Fresh(ctx context.Context) error {
	if age := l.clock.Since(l.since); age > MaxReadAge {
		ctrl.LoggerFrom(ctx).Info("Doing nothing, because the decision rests on reads that are too old", "age", age)
		return ErrBehind
	}
	return nil
}

// Etcd reads the Etcd from the API server. It returns ErrBehind if the Etcd is gone, is being deleted, or is another one of that name.
func (l Live) Etcd(ctx context.Context, cached *v1alpha1.Etcd) (*v1alpha1.Etcd, error) {
	key := client.ObjectKeyFromObject(cached)
	live, err := lookup.Get[v1alpha1.Etcd](ctx, l, "Etcd", key)
	switch {
	case err != nil:
		return nil, err
	case live == nil:
		return nil, Behind(ctx, "Etcd %s is gone", key)
	case live.UID != cached.UID:
		return nil, Behind(ctx, "Etcd %s is another one now, with UID %s", key, live.UID)
	case live.DeletionTimestamp != nil:
		return nil, Behind(ctx, "Etcd %s is being deleted", key)
	}
	return live, nil
}
