// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package quorum

import "testing"

func TestTwoQuorumsOfTheSameVotersShareOne(t *testing.T) {
	for n := 1; n <= 99; n++ {
		if q := Size(n); 2*q <= n {
			t.Errorf("two disjoint quorums of %d fit into %d voters", q, n)
		} else if 2*(q-1) > n {
			t.Errorf("a quorum of %d voters is %d, more than the smallest majority", n, q)
		}
	}
}

func TestExists(t *testing.T) {
	for _, c := range []struct {
		serving, voters int
		want            bool
	}{
		// Without voters one is enough, and there is none.
		{0, 0, false}, {1, 0, true}, {0, -1, false}, {0, -3, false}, {1, -3, true}, {0, 1, false}, {1, 1, true}, {1, 2, false}, {2, 2, true}, {1, 3, false}, {2, 3, true},
		{2, 4, false}, {3, 4, true}, {3, 5, true}, {3, 6, false}, {4, 7, true},
	} {
		if got := Exists(c.serving, c.voters); got != c.want {
			t.Errorf("Exists(%d, %d) = %v", c.serving, c.voters, got)
		}
	}
}
