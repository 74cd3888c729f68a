// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package kube

import "os"

// hasSequences reports whether a terminal has escape sequences. All have that are not dumb.
func hasSequences(*os.File) bool { return true }
