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

// sizeOf returns the size of the terminal that a stream goes to. One that has no escape sequences counts as none.
func sizeOf(stream io.Writer) (width, height int, ok bool) {
	file, isFile := stream.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" || !hasSequences(file) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	return width, height, err == nil && width > 0
}

// WidthOf returns the columns of the terminal that a stream goes to; 0 if it is no terminal.
func WidthOf(stream io.Writer) int {
	width, _, ok := sizeOf(stream)
	if !ok {
		return 0
	}
	return width
}
