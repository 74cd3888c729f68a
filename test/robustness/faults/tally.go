// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"sync"
)

// tally counts what a fault has done to each of its targets.
type tally struct {
	mutex sync.Mutex
	times map[string]int
}

func (t *tally) add(target string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.times == nil {
		t.times = map[string]int{}
	}
	t.times[target]++
}

// evidence says how often it happened to each of some targets, and what it was; empty if to one of them it never did.
func (t *tally) evidence(targets []string, what string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var all []string
	for _, target := range targets {
		if t.times[target] == 0 {
			return ""
		}
		all = append(all, fmt.Sprintf("%s %d times", target, t.times[target]))
	}
	return what + ": " + strings.Join(all, ", ")
}
