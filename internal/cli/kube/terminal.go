// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// SizeOf returns the size of the terminal that a stream goes to; ok is false if it is no terminal, or one without escape sequences.
func SizeOf(stream io.Writer) (width, height int, ok bool) {
	file, isFile := stream.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" || !hasSequences(file) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil && width > 0
}
