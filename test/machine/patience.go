// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package machine is what tests ask of the machine that they run on: time, programs, files and addresses. It needs no Kubernetes.
package machine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// Patience is for how long a test waits for what has to come about: two minutes, and longer on a machine that is busy.
func Patience() time.Duration { return Scaled(2 * time.Minute) }

// Gomega returns assertions that wait with Patience.
func Gomega(t testing.TB) *gomega.WithT {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(Patience())
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	return g
}

// Scaled returns a time that suits an idle machine, or as many times that as the machine has work for each of its processors, up to eight
// times. It is for deadlines that are not what is tested: only the machine decides them.
func Scaled(idle time.Duration) time.Duration {
	busy := min(max(load()/float64(runtime.NumCPU()), 1), 8)
	return time.Duration(busy * float64(idle))
}

// load returns how much the machine has to do: the number of processes that run or could, now or on average over the last minute, whichever
// is more. It is 0 where the machine does not say.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	fields := strings.FieldsFunc(string(content), func(r rune) bool { return r == ' ' || r == '/' })
	var most float64
	for i, field := range fields {
		if value, err := strconv.ParseFloat(field, 64); err == nil && (i == 0 || i == 3) {
			most = max(most, value)
		}
	}
	return most
}
