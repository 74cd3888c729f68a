// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Logs are what the log of etcd says about a time: how often, and how long. Keys, addresses and texts are not kept.
type Logs struct {
	// Lines is how many lines there are.
	Lines int
	// SlowApply are requests in the measurement that took longer than 100 ms to apply, and SlowRanges those of them that read a range.
	SlowApply, SlowRanges int
	// LargestAnswer is the size of the largest answer to a range that was slow, in bytes.
	LargestAnswer int64
	// SlowSyncs are calls of fdatasync that took longer than a second.
	SlowSyncs     int
	LeaderChanges int
	// NoSpace are writes that failed because the volume is full. Like what follows up to Drift, it counts only if it was recent: it is
	// over once the last line is old, such as that of a peer that started a little later.
	NoSpace int
	// Rejected are connections from peers that failed the TLS handshake, and Unhealthy are peers that could not be probed.
	Rejected, Unhealthy int
	// Drift are peers whose clock differs by more than a second.
	Drift int
	// Dropped are messages to peers in the measurement that were dropped because the sending buffer was full.
	Dropped int
	// TooLarge are requests that were refused for their size.
	TooLarge int
}

// counted are what is counted, by a part of the message.
var counted = []countedLine{
	{"apply request took too long", func(l *Logs) *int { return &l.SlowApply }, measured},
	{"slow fdatasync", func(l *Logs) *int { return &l.SlowSyncs }, ever},
	{"elected leader", func(l *Logs) *int { return &l.LeaderChanges }, ever},
	{"no space left on device", func(l *Logs) *int { return &l.NoSpace }, recently},
	// On the client endpoint, that is a connection that says nothing, such as that of a probe.
	{"rejected connection on peer endpoint", func(l *Logs) *int { return &l.Rejected }, recently},
	{"prober detected unhealthy status", func(l *Logs) *int { return &l.Unhealthy }, recently},
	{"prober found high clock drift", func(l *Logs) *int { return &l.Drift }, recently},
	{"sending buffer is full", func(l *Logs) *int { return &l.Dropped }, measured},
	{"request is too large", func(l *Logs) *int { return &l.TooLarge }, ever},
}

type countedLine struct {
	text   string
	in     func(*Logs) *int
	counts age
}

// age is when a line must have been logged to count.
type age int

const (
	// ever: it says what happened.
	ever age = iota
	// recently: it says what is the case, for the last justLogged.
	recently
	// measured: it says what clients or peers did, which slows only what is measured in the same time.
	measured
)

// justLogged is how old a line may be that says what is the case.
const justLogged = 2 * time.Minute

// MaxLine is how long a line may be to be judged, in bytes. In a part of one, what a key says could count.
const MaxLine = 4 << 20

// ParseLogs counts the lines of etcd's log that say why it is slow, or was; it was measured since a time. It reads all of them: the newest ones are
// the last. Of a line that is too long, more than MaxLine is enough.
func ParseLogs(lines iter.Seq2[[]byte, error], began, now time.Time) (*Logs, error) {
	l, from := &Logs{}, map[age]time.Time{recently: now.Add(-justLogged), measured: began}
	for line, err := range lines {
		if err != nil {
			return nil, fmt.Errorf("reading the log: %w", err)
		}
		l.Lines++
		if len(line) <= MaxLine && slices.ContainsFunc(counted, func(c countedLine) bool { return bytes.Contains(line, []byte(c.text)) }) {
			l.count(string(line), from)
		}
	}
	return l, nil
}

// logLine are the fields of a line that matter. The others may have keys, which tenants choose: what a key says does not count.
type logLine struct {
	Time     string `json:"ts"`
	Message  string `json:"msg"`
	Error    string `json:"error"`
	Prefix   string `json:"prefix"`
	Response string `json:"response"`
}

func (l *Logs) count(line string, from map[age]time.Time) {
	fields := logLine{}
	if json.Unmarshal([]byte(line), &fields) != nil {
		// A panic is no JSON, and has no time.
		fields = logLine{Message: line}
	}
	at, err := time.Parse(time.RFC3339, fields.Time)
	for _, c := range counted {
		if err == nil && at.Before(from[c.counts]) {
			continue
		}
		if strings.Contains(fields.Message, c.text) || strings.Contains(fields.Error, c.text) {
			*c.in(l)++
			l.details(fields, c.text)
		}
	}
}

func (l *Logs) details(fields logLine, kind string) {
	if kind == "apply request took too long" && strings.HasPrefix(fields.Prefix, "read-only range") {
		l.SlowRanges++
		if _, size, found := strings.Cut(fields.Response, "size:"); found {
			// What is no number is 0.
			n, _ := strconv.ParseInt(strings.TrimSpace(size), 10, 64)
			l.LargestAnswer = max(l.LargestAnswer, n)
		}
	}
}
