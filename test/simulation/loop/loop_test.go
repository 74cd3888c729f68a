// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tell runs two goroutines that make calls, in parallel within each, and an event, and returns what has happened.
func tell(t *testing.T, seed uint64) (trace *Trace, story string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		l := New(seed)
		for _, name := range []string{"a", "b"} {
			l.Start(name, func() {
				for _, what := range []string{"one", "two"} {
					answers := make(chan bool, 2)
					// Both in any order that the runtime chooses.
					for _, part := range []string{"left", "right"} {
						go func() { answers <- l.Call(&Actor{}, name, what+" "+part, func(release func()) { release() }) }()
					}
					<-answers
					<-answers
				}
			})
		}
		l.After(time.Second, "clock", "strikes", func() {})
		l.Run(time.Minute, func() bool { return false })
		trace = l.Trace
	})
	var b bytes.Buffer
	if err := trace.Write(&b, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	return trace, b.String()
}

func TestOneSeedIsOneRun(t *testing.T) {
	stories := map[string]bool{}
	for seed := range uint64(20) {
		first, story := tell(t, seed)
		for range 20 {
			if again, _ := tell(t, seed); again.Hash() != first.Hash() {
				t.Fatalf("seed %d: %s", seed, first.Differ(again))
			}
		}
		stories[story] = true
		if lines := strings.Split(strings.TrimSpace(story), "\n"); len(lines) != 9 || !strings.Contains(lines[8], "strikes") {
			t.Errorf("seed %d: calls come before time moves:\n%s", seed, story)
		}
	}
	if len(stories) < 10 {
		t.Errorf("20 seeds give %d runs", len(stories))
	}
}

func TestAPausedActorWaits(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l, a, done := New(1), &Actor{Paused: true}, time.Duration(0)
		l.Start("a", func() {
			l.Call(a, "a", "asks", func(release func()) { release() })
			done = l.Now()
		})
		l.After(time.Minute, "user", "resumes", func() { a.Paused = false })
		l.Run(time.Hour, func() bool { return false })
		if done != time.Minute {
			t.Errorf("it went on after %s", done)
		}
	})
}

func TestCloseRefusesWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l, refused := New(1), []string{}
		for i, a := range []*Actor{{}, {Paused: true}} {
			l.Start(fmt.Sprint(i), func() {
				for l.Call(a, fmt.Sprint(i), "asks", func(func()) {}) {
				}
				refused = append(refused, fmt.Sprint(i))
			})
		}
		l.Run(time.Second, func() bool { return false })
		l.Close()
		if slices.Sort(refused); !slices.Equal(refused, []string{"0", "1"}) {
			t.Errorf("refused: %v", refused)
		}
	})
}

func TestWhatNeverEndsIsNoticed(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l := New(1)
		var again func()
		again = func() { l.After(0, "a", "", again) }
		again()
		if l.Run(time.Second, func() bool { return false }) {
			t.Error("it ended")
		}
	})
}
