// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"

	"golang.org/x/sys/windows"
)

// hasSequences switches on the escape sequences of a console, and reports whether it has them. Consoles before Windows 10 do not.
func hasSequences(console *os.File) bool {
	var mode uint32
	handle := windows.Handle(console.Fd())
	if windows.GetConsoleMode(handle, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
