// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package command runs programs of this machine. It imports the standard library only.
package command

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Run runs a program. Its error holds the command line and the program's output.
func Run(ctx context.Context, name string, args ...string) error {
	return Do(exec.CommandContext(ctx, name, args...))
}

// Do is Run for a command with an environment or an input of its own.
func Do(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Exists reports whether a program is on PATH.
func Exists(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
