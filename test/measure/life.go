// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
)

// What is recorded is drawn by package timeline.
type (
	// State is what the API server shows of one pod name.
	State = timeline.State
	// Span is a period in which a pod name kept its state.
	Span = timeline.Span
	// Life has the spans of each pod name.
	Life = timeline.Life
	// Reign is a period in which one member led in one term.
	Reign = timeline.Reign
	// Gap is a time without an acknowledged write.
	Gap = timeline.Gap
)

// life collects a Life.
type life struct {
	mutex sync.Mutex
	pods  Life
}

func (l *life) record(pod string, state State, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	spans := l.pods[pod]
	if n := len(spans); n > 0 {
		if spans[n-1].State == state {
			return
		}
		spans[n-1].To = now
	}
	if l.pods == nil {
		l.pods = Life{}
	}
	l.pods[pod] = append(spans, Span{State: state, From: now})
}

func (l *life) list() Life {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	list := Life{}
	for pod, spans := range l.pods {
		list[pod] = slices.Clone(spans)
	}
	return list
}
