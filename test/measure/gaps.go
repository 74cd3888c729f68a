// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import "time"

// NoticeableGap is the length from which a gap counts as time without writes. Shorter pauses are common in a healthy
// cluster, and well below client timeouts.
const NoticeableGap = 300 * time.Millisecond

// gaps returns the gaps of more than NoticeableGap between from, the acknowledgements, and until.
func gaps(acknowledged []time.Time, from, until time.Time) []Gap {
	var found []Gap
	eachGap(acknowledged, from, until, func(g Gap) {
		if g.Duration() > NoticeableGap {
			found = append(found, g)
		}
	})
	return found
}

// longestGap returns the longest time between from, the acknowledgements, and until.
func longestGap(acknowledged []time.Time, from, until time.Time) time.Duration {
	longest := time.Duration(0)
	eachGap(acknowledged, from, until, func(g Gap) { longest = max(longest, g.Duration()) })
	return longest
}

func eachGap(acknowledged []time.Time, from, until time.Time, do func(Gap)) {
	last := from
	for _, at := range acknowledged {
		do(Gap{From: last, To: at})
		last = at
	}
	do(Gap{From: last, To: until})
}
