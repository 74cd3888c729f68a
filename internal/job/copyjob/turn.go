// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copyjob

import (
	"cmp"
	"fmt"
	"time"
)

// How many copies run at once in a namespace, and in all. Each is a Job that the operator follows.
const (
	MaxInNamespace = 5
	maxInAll       = 100
)

// Request for a copy that has not ended.
type Request struct {
	Namespace, Name string
	Created         time.Time
}

func (r Request) compare(other Request) int {
	return cmp.Or(r.Created.Compare(other.Created), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Wait returns why a copy does not run yet, given all that have not ended; empty if it may. The oldest run first. Copies
// that wait for others of their namespace do not delay those of other namespaces. It is pure.
func Wait(own Request, all []Request) string {
	before, running := map[string]int{}, 0
	for _, r := range all {
		if r.compare(own) >= 0 {
			continue
		}
		if before[r.Namespace]++; before[r.Namespace] <= MaxInNamespace {
			running++
		}
	}
	switch {
	case before[own.Namespace] >= MaxInNamespace:
		return fmt.Sprintf("waiting: at most %d copies of backups run at once in a namespace, and older ones have not ended", MaxInNamespace)
	case running >= maxInAll:
		return fmt.Sprintf("waiting: at most %d copies of backups run at once in all namespaces, and older ones have not ended", maxInAll)
	}
	return ""
}
