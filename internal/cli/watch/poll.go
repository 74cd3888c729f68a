// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

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
