// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testclock "k8s.io/utils/clock/testing"
)

func TestScreenRedrawsInPlace(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	var out bytes.Buffer
	width, height := 10, 4
	k := kube.New(genericiooptions.IOStreams{Out: &out})
	k.Size = func() (int, int, bool) { return width, height, true }
	s := newScreen(k)
	show := func(lines ...string) string {
		out.Reset()
		s.draw(func(int) []string { return lines })
		return strings.NewReplacer("\x1b", "^", "\n", "$").Replace(out.String())
	}
	for i, c := range []struct{ got, want string }{
		{show("one", "two"), "^[?25l^[?7lone^[K$two^[K$^[J"},
		{show("three"), "^[2A\rthree^[K$^[J"},
		{show("a line too long"), "^[1A\ra line to…^[K$^[J"},
		{show("1", "2", "3", "4", "5"), "^[1A\r1^[K$2^[K$3^[K$^[J"},
	} {
		if c.got != c.want {
			t.Errorf("frame %d: %q, want %q", i, c.got, c.want)
		}
	}
	width = 20
	if got := show("wider"); got != "wider^[K$^[J" {
		t.Errorf("after the width has changed: %q", got)
	}
}

// watched runs Poll over reads, one for each period, and returns what it printed until the last. A period passes once the page is shown.
func watched(t *testing.T, terminal bool, reads ...func() (Page, error)) (string, error) {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	k := kube.New(streams)
	if terminal {
		k.Size = func() (int, int, bool) { return 80, 24, true }
	}
	var err error
	synctest.Test(t, func(t *testing.T) {
		clock := testclock.NewFakeClock(clitest.Now)
		k.Clock, k.Location = clock, time.UTC
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		err = Poll(ctx, k, func(context.Context) (Page, error) {
			if n++; n > len(reads) {
				cancel()
				return nil, context.Canceled
			}
			go func() {
				synctest.Wait()
				clock.Step(pollPeriod)
			}()
			return reads[n-1]()
		})
	})
	return out.String(), err
}

func says(what string) func() (Page, error) {
	return func() (Page, error) {
		return func(now time.Time, _ int) []string {
			return []string{what + ", age " + text.Since(clitest.Ago(60).Time, now)}
		}, nil
	}
}

func fails() (Page, error) { return nil, errors.New("no answer") }

func TestWatchPrintsWhatIsNew(t *testing.T) {
	got, err := watched(t, false, says("a"), says("a"), says("b"), fails, fails, says("b"))
	want := "00:00:30\na, age 60s\n\n00:00:34\nb, age 64s\n\n00:00:36\nb, age 66s\n\nThis is not the newest state: no answer\n\n00:00:40\nb, age 70s\n\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWatchOnATerminal(t *testing.T) {
	got, err := watched(t, true, says("a"), says("a"))
	if want := hideCursor + noWrap + "a, age 60s\x1b[K\n\x1b[J\x1b[1A\ra, age 62s\x1b[K\n\x1b[J" + wrap + showCursor; err != nil || got != want {
		t.Errorf("%v\n%q", err, got)
	}
}

func TestWatchFailsIfTheFirstReadDoes(t *testing.T) {
	if got, err := watched(t, true, fails); err == nil || got != "" {
		t.Errorf("%v %q", err, got)
	}
}

// Colors take no columns, and there are none where they are not wanted.
func TestColorsOnAScreen(t *testing.T) {
	var out bytes.Buffer
	k := kube.New(genericiooptions.IOStreams{Out: &out})
	terminal := true
	k.Size = func() (int, int, bool) { return 10, 24, terminal }
	for _, c := range []struct {
		noColor  string
		terminal bool
		want     bool
	}{{"", true, true}, {"1", true, false}, {"", false, false}} {
		t.Setenv("NO_COLOR", c.noColor)
		terminal = c.terminal
		out.Reset()
		k.Print("a-0  Dead")
		if got := strings.Contains(out.String(), "\x1b[31mDead\x1b[0m"); got != c.want {
			t.Errorf("%+v: %q", c, out.String())
		}
		out.Reset()
		newScreen(k).draw(func(int) []string { return []string{"a-0  Dead \x1b[32m"} })
		if got := strings.Contains(out.String(), "\x1b[31mDead\x1b[0m"); got != c.want || strings.Contains(out.String(), "\x1b[32m") {
			t.Errorf("%+v: %q", c, out.String())
		}
	}
}
