// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// screen renews lines in place. It switches off line wrapping, so that the number of lines on the terminal is known.
type screen struct {
	out  io.Writer
	size func() (width, height int, ok bool)
	// drawn is the number of lines above the cursor, in a terminal of this width.
	drawn, width int
}

const (
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	toLineEnd  = "\x1b[K"
	toEnd      = "\x1b[J"
)

func newScreen(out io.Writer, size func() (int, int, bool)) *screen {
	s := &screen{out: out, size: size}
	s.write(hideCursor + noWrap)
	return s
}

// draw replaces the previous lines. A terminal whose width has changed has moved them: then the new ones go below.
func (s *screen) draw(lines func(width int) []string) {
	width, height, ok := s.size()
	if !ok {
		width, height = 80, 24
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
		frame.WriteString(text.Clip(line, width) + toLineEnd + "\n")
	}
	frame.WriteString(toEnd)
	s.write(frame.String())
	s.drawn = len(all)
}

func (s *screen) close() { s.write(wrap + showCursor) }

func (s *screen) write(text string) {
	fmt.Fprint(s.out, text) //nolint:errcheck // there is nowhere to report it
}
