// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package network

import "testing"

func TestDropsByDefault(t *testing.T) {
	for rules, want := range map[string]bool{
		"-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n": true,
		"-P FORWARD ACCEPT\n-A FORWARD -j DROP\n":      false,
		"-P INPUT DROP\n": false,
		"":                false,
	} {
		if got := dropsByDefault(rules, "FORWARD"); got != want {
			t.Errorf("%q: got %t", rules, got)
		}
	}
}
