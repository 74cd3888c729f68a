// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a person what is going on and how long it takes: one
// line for each step, renewed in place on a terminal, repeated now and then
// elsewhere. It imports the standard library only.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// quiet is how long a step may take before it says that it runs.
	quiet = 2 * time.Second
	// onTerminal and elsewhere are how often a running step repeats itself.
	onTerminal = 500 * time.Millisecond
	elsewhere  = 15 * time.Second
)

// Printer prints steps, one at a time.
type Printer struct {
	out      io.Writer
	terminal bool
}

// New returns a printer that writes to a file, most likely os.Stderr.
func New(out *os.File) *Printer {
	return &Printer{out: out, terminal: IsTerminal(out) && os.Getenv("TERM") != "dumb"}
}

// IsTerminal tells whether a person may be at the other end of a file.
func IsTerminal(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device too
	return err == nil && !os.SameFile(info, null)
}

// Line prints one line.
func (p *Printer) Line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// Step runs do and prints name, what it came to and how long it took. While do
// runs it may call note to say how far it is. The string it returns is its
// result in a word or two, "done" when empty.
func (p *Printer) Step(name string, do func(note func(string)) (string, error)) error {
	start := time.Now()
	var mutex sync.Mutex
	var latest string
	note := func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		latest = text
	}
	stop := p.repeat(name, start, func() string {
		mutex.Lock()
		defer mutex.Unlock()
		return latest
	})
	result, err := do(note)
	stop()
	took := time.Since(start)
	if err != nil {
		p.final(fmt.Sprintf("%-24s failed after %s", name, round(took)))
		return err
	}
	if result == "" {
		result = "done"
	}
	p.final(fmt.Sprintf("%-24s %s (%s)", name, result, round(took)))
	return nil
}

// repeat prints the state of a step until the returned function is called.
func (p *Printer) repeat(name string, start time.Time, latest func() string) (stop func()) {
	period := elsewhere
	if p.terminal {
		period = onTerminal
	}
	ended := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() {
		timer := time.NewTimer(quiet)
		defer timer.Stop()
		for {
			select {
			case <-ended:
				return
			case <-timer.C:
				line := fmt.Sprintf("%-24s %s %s", name, round(time.Since(start)), latest())
				p.interim(strings.TrimSpace(line))
				timer.Reset(period)
			}
		}
	})
	return func() {
		close(ended)
		printing.Wait()
	}
}

func (p *Printer) interim(line string) {
	if p.terminal {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	_, _ = fmt.Fprintln(p.out, line)
}

func (p *Printer) final(line string) {
	if p.terminal {
		line = "\r\x1b[K" + line
	}
	_, _ = fmt.Fprintln(p.out, line)
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
