// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// BusyCPU returns a function that returns the share of the CPUs of this machine that was in use since, in percent.
func BusyCPU(t testing.TB) func() float64 {
	t.Helper()
	read := func() (idle, all float64) {
		raw, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(raw), "\n")
		for n, field := range strings.Fields(first)[1:] {
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			// idle and iowait
			if all += ticks; n == 3 || n == 4 {
				idle += ticks
			}
		}
		return idle, all
	}
	idle, all := read()
	return func() float64 {
		idleNow, allNow := read()
		return 100 - 100*(idleNow-idle)/max(allNow-all, 1)
	}
}
