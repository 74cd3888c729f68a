// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package console prints progress: a line for each step and event, and the progress and duration of the current step, in
// place on a terminal and now and then elsewhere. It imports the standard library only.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// quiet is how long a step may take before its progress is printed.
	quiet = 2 * time.Second
	// onTerminal and elsewhere are the intervals of progress output.
	onTerminal = 200 * time.Millisecond
	elsewhere  = 10 * time.Second
	// nameWidth is the width of the column of names.
	nameWidth = 24
	// lineWidth is the length of a line redrawn in place that fits a narrow terminal.
	lineWidth = 110
)

// Console prints progress. It is safe for concurrent use.
type Console struct {
	out      io.Writer
	terminal bool

	mutex   sync.Mutex
	interim bool      // the last line is redrawn in place
	spoken  time.Time // when something was last printed
}

// New returns a Console that prints to a file, usually os.Stdout.
func New(out *os.File) *Console {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &Console{out: out, terminal: terminal}
}

// Line prints a line.
func (c *Console) Line(format string, args ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.clear()
	fmt.Fprintf(c.out, format+"\n", args...) //nolint:errcheck // there is nowhere to report it
	c.spoken = time.Now()
}

// Heading prints a line that stands out.
func (c *Console) Heading(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.terminal {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	c.Line("\n%s", text)
}

// Step runs do and prints its name, result and duration. While do runs, it may call note to report progress, and print
// lines.
func (c *Console) Step(name string, do func(note func(string)) (result string, err error)) error {
	start := time.Now()
	var mutex sync.Mutex
	var latest string
	note := func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		latest = text
	}
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for c.wait(start, ended) {
			mutex.Lock()
			text := latest
			mutex.Unlock()
			c.say(fmt.Sprintf("  %-*s %s  %s", nameWidth, name, took(time.Since(start)), text))
		}
	})
	result, err := do(note)
	close(ended)
	waiting.Wait()
	if err != nil {
		result = "failed"
	}
	c.Line("  %-*s %s (%s)", nameWidth, name, result, took(time.Since(start)))
	return err
}

// wait waits until the progress of a step that began at start is due; it returns false once the step has ended.
func (c *Console) wait(start time.Time, ended <-chan struct{}) bool {
	ticker := time.NewTicker(onTerminal)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return false
		case now := <-ticker.C:
			if now.Sub(start) >= quiet && (c.terminal || c.silence(now) >= elsewhere) {
				return true
			}
		}
	}
}

func (c *Console) silence(now time.Time) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return now.Sub(c.spoken)
}

// say prints a line that the next one replaces, on a terminal.
func (c *Console) say(text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.clear()
	if runes := []rune(text); c.terminal && len(runes) > lineWidth {
		text = string(runes[:lineWidth-1]) + "…"
	}
	fmt.Fprint(c.out, strings.TrimRight(text, " ")) //nolint:errcheck // there is nowhere to report it
	if c.interim = c.terminal; !c.interim {
		fmt.Fprintln(c.out) //nolint:errcheck // there is nowhere to report it
	}
	c.spoken = time.Now()
}

// clear removes the line that is redrawn in place.
func (c *Console) clear() {
	if c.interim {
		fmt.Fprint(c.out, "\r\x1b[K") //nolint:errcheck // there is nowhere to report it
		c.interim = false
	}
}

// took formats a duration for people.
func took(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%.0fs", d.Seconds())
}
