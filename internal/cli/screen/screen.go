// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package screen shows what changes: lines that are renewed in place on a terminal, and pages elsewhere.
package screen

import (
	"fmt"
	"io"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// Screen renews lines in place. It switches off line wrapping, so that the number of lines on the terminal is known.
type Screen struct {
	out  io.Writer
	size func() (width, height int, ok bool)
	// drawn is the number of lines above the cursor, in a terminal of this width.
	drawn, width int
	// color: states have colors.
	color bool
}

const (
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	toLineEnd  = "\x1b[K"
	toEnd      = "\x1b[J"
)

// New prepares the terminal; call Close at the end.
func New(k *kube.Kube) *Screen {
	s := &Screen{out: k.Out, size: k.Size, color: k.Color()}
	s.write(hideCursor + noWrap)
	return s
}

// Draw replaces the previous lines. A terminal whose width has changed has moved them: then the new ones go below.
func (s *Screen) Draw(lines func(width int) []string) {
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

// Close restores the terminal.
func (s *Screen) Close() { s.write(wrap + showCursor) }

func (s *Screen) write(text string) {
	fmt.Fprint(s.out, text) //nolint:errcheck // there is nowhere to report it
}
