// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package quorum is the arithmetic of majorities. It imports nothing.
package quorum

// Size is the number of voters that make a quorum of n voters: the smallest majority. For n < 1 it is 1,
// which no cluster without voters can reach.
func Size(n int) int {
	if n < 1 {
		return 1
	}
	return n/2 + 1
}

// Exists reports whether serving voters are a quorum of n voters.
func Exists(serving, n int) bool {
	return serving >= Size(n)
}
