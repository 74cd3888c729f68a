// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// renewPeriod is how often a page is redrawn while nothing changes, because ages grow.
const renewPeriod = time.Second

// Page formats a state at a time and in a width; 0 is any width.
type Page func(now time.Time, width int) []string

// Source calls show with each new state, and lost with the error of each read that it will retry. It returns when the context ends,
// or earlier.
type Source[T any] func(ctx context.Context, show func(T), lost func(error)) error

// Format is how states are shown.
type Format[T any] struct {
	// Page formats a state for a terminal; it is called for each new state and every renewPeriod. If it is nil, states are printed on
	// a terminal, too.
	Page func(T) Page
	// Print prints a state where the output is not a terminal.
	Print func(T) error
	// still: a page is not redrawn while nothing changes.
	still bool
}

// Show shows the states of a source until the source returns. A terminal shows the newest one in place; elsewhere, each is printed.
// During an outage the last state stays, and the error is shown: below it on a terminal, and once on the error stream otherwise.
func Show[T any](ctx context.Context, k *kube.Kube, source Source[T], format Format[T]) error {
	return showOn(ctx, k, newScreen(k), source, format)
}

func showOn[T any](ctx context.Context, k *kube.Kube, s *screen, source Source[T], format Format[T]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, _, terminal := s.size(); !terminal || format.Page == nil {
		return printEach(ctx, cancel, k, source, format.Print)
	}
	news, ended := make(chan state[T]), make(chan error, 1)
	send := func(n state[T]) {
		select {
		case news <- n:
		case <-ctx.Done():
		}
	}
	go func() {
		ended <- source(ctx, func(value T) { send(state[T]{value: value}) }, func(err error) { send(state[T]{lost: err}) })
	}()
	defer s.close()
	return draw(k, s, format, news, ended)
}

// state is a new value, or the error of reading one.
type state[T any] struct {
	value T
	lost  error
}

// draw redraws the page for each state and every renewPeriod, until the source has returned.
func draw[T any](k *kube.Kube, s *screen, format Format[T], news <-chan state[T], ended <-chan error) error {
	var renew <-chan time.Time
	if !format.still {
		ticker := k.Clock.NewTicker(renewPeriod)
		defer ticker.Stop()
		renew = ticker.C()
	}
	var value T
	var lost error
	for known := false; ; {
		select {
		case err := <-ended:
			return err
		case n := <-news:
			if lost = n.lost; lost == nil {
				value, known = n.value, true
			}
		case <-renew:
		}
		if !known {
			continue
		}
		page := format.Page(value)
		if lost != nil {
			page = outdated(page, kube.Sentence(lost))
		}
		s.draw(func(width int) []string { return page(k.Clock.Now(), width) })
	}
}

// printEach prints each state until the source returns. An outage is reported once.
func printEach[T any](ctx context.Context, cancel func(), k *kube.Kube, source Source[T], print func(T) error) error {
	var failed error
	reported := false
	err := source(ctx, func(value T) {
		reported = false
		if failed == nil {
			if failed = print(value); failed != nil {
				cancel()
			}
		}
	}, func(err error) {
		if !reported {
			text.Print(k.ErrOut, notNewest+kube.Sentence(err))
		}
		reported = true
	})
	return cmp.Or(failed, err)
}

const notNewest = "This is not the newest state: "

// outdated returns a page that also says why it is not the newest.
func outdated(last Page, why string) Page {
	return func(now time.Time, width int) []string {
		return append(append(last(now, width), ""), text.Wrap(notNewest+why, 0, width)...)
	}
}

// pollPeriod is the pause between two reads.
const pollPeriod = 2 * time.Second

// Poll shows a page, and reads it every two seconds, until it is interrupted. If the output is not a terminal, it prints a page,
// below the time of day, if more than ages has changed. An error of the first read is returned; after that, the last page stays,
// with the error below it.
func Poll(ctx context.Context, k *kube.Kube, read func(context.Context) (Page, error)) error {
	source := func(ctx context.Context, show func(Page), _ func(error)) error {
		page, err := read(ctx)
		if err != nil {
			return err
		}
		for last := page; ; {
			show(page)
			select {
			case <-ctx.Done():
				return nil
			case <-k.Clock.After(pollPeriod):
			}
			page, err = read(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				last = page
			default:
				page = outdated(last, kube.Sentence(err))
			}
		}
	}
	return Show(ctx, k, source, Format[Page]{Page: func(p Page) Page { return p }, Print: logged(k), still: true})
}

// logged returns a function that prints pages that say something new.
func logged(k *kube.Kube) func(Page) error {
	var before []string
	return func(p Page) error {
		// Without a time, all ages are the same.
		if says := p(time.Time{}, 0); !slices.Equal(says, before) {
			k.Print(text.TimeOfDay(k.Clock.Now().In(k.Location)))
			k.Print(append(p(k.Clock.Now(), 0), "")...)
			before = says
		}
		return nil
	}
}
