// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !amd64

package killed

import "os/exec"

func run(*exec.Cmd, int, int) (string, error) { return "", errUnsupported }
