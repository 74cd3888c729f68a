// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// screen renews lines in place. It switches off line wrapping, so that the number of lines on the terminal is known.
type screen struct {
	out  io.Writer
	size func() (width, height int, ok bool)
	// drawn is the number of lines above the cursor, in a terminal of this width.
	drawn, width int
	// color: states have colors.
	color bool
	// transient: the lines are removed at the end.
	transient bool
}

const (
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	toLineEnd  = "\x1b[K"
	toEnd      = "\x1b[J"
)

// newScreen returns a screen for the output.
func newScreen(k *kube.Kube) *screen { return &screen{out: k.Out, size: k.Size, color: k.Color()} }

// newProgress returns a screen for the progress of a command, on the error stream.
func newProgress(k *kube.Kube) *screen {
	return &screen{out: k.ErrOut, size: func() (int, int, bool) { return kube.SizeOf(k.ErrOut) }, transient: true}
}

// draw replaces the previous lines. After a change of the width, the terminal has moved them, and the new lines go below.
func (s *screen) draw(lines func(width int) []string) {
	width, height, ok := s.size()
	if !ok {
		width, height = 80, 24
	}
	if s.width == 0 {
		s.write(hideCursor + noWrap)
	}
	if width != s.width {
		s.drawn, s.width = 0, width
	}
	all := lines(width)
	if len(all) > height-1 {
		all = all[:max(height-1, 1)]
	}
	var frame strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&frame, "\x1b[%dA\r", s.drawn)
	}
	for _, line := range all {
		line = text.Clip(line, width)
		if s.color {
			line = text.Color(line)
		}
		frame.WriteString(line + toLineEnd + "\n")
	}
	frame.WriteString(toEnd)
	s.write(frame.String())
	s.drawn = len(all)
}

// close restores the terminal.
func (s *screen) close() {
	if s.width == 0 {
		return
	}
	if s.transient && s.drawn > 0 {
		s.write(fmt.Sprintf("\x1b[%dA\r", s.drawn) + toEnd)
	}
	s.write(wrap + showCursor)
}

func (s *screen) write(text string) {
	fmt.Fprint(s.out, text) //nolint:errcheck // there is nowhere to report it
}
