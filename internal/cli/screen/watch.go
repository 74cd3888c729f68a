// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"context"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// period is the pause between two reads.
const period = 2 * time.Second

// Page formats what was read of a cluster, at a time and in a width; 0 is any width.
type Page func(now time.Time, width int) []string

// Watch reads a page again and again until it is interrupted. A terminal shows the newest page; elsewhere, a page is printed,
// below the time of day, whenever it differs from the one before in more than ages. Only the first read may fail: later, the last
// page stays, with the error below it.
func Watch(ctx context.Context, k *kube.Kube, read func(context.Context) (Page, error)) error {
	page, err := read(ctx)
	if err != nil {
		return err
	}
	show := logged(k)
	if k.Width() > 0 {
		screen := New(k)
		defer screen.Close()
		show = func(p Page) {
			screen.Draw(func(width int) []string { return p(k.Clock.Now(), width) })
		}
	}
	for last := page; ; {
		show(page)
		select {
		case <-ctx.Done():
			return nil
		case <-k.Clock.After(period):
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

// outdated returns a page with the reason that it is not the newest.
func outdated(last Page, why string) Page {
	return func(now time.Time, width int) []string {
		return append(append(last(now, width), ""), text.Wrap("This is not the newest state: "+why, 0, width)...)
	}
}

// logged returns a function that prints pages that say something new.
func logged(k *kube.Kube) func(Page) {
	var before []string
	return func(p Page) {
		// Without a time, all ages are the same.
		if says := p(time.Time{}, 0); !slices.Equal(says, before) {
			k.Print(text.TimeOfDay(k.Clock.Now().In(k.Location)))
			k.Print(append(p(k.Clock.Now(), 0), "")...)
			before = says
		}
	}
}
