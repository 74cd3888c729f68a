// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestIdeal(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		each    []time.Duration
		slots   int
		seconds float64
		order   float64
	}{
		"nothing":               {nil, 2, 0, 0},
		"a canary":              {[]time.Duration{3 * s}, 2, 3 + 10, 13.0 / 3},
		"of equal length":       {[]time.Duration{s, s, s, s, s}, 2, 1 + 10 + 2, 13.0 / 2.5},
		"the longest one last":  {[]time.Duration{s, s, s, 8 * s}, 2, 1 + 10 + 1 + 8, 20.0 / 8},
		"the longest one first": {[]time.Duration{s, 8 * s, s, s}, 2, 1 + 10 + 8, 19.0 / 8},
	} {
		if seconds, order := ideal(c.each, c.slots, 10*s); seconds != c.seconds || order < c.order-0.001 || order > c.order+0.001 {
			t.Errorf("%s: %v s, %v", name, seconds, order)
		}
	}
}
