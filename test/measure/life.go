// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// State is what the API server shows of one pod name.
type State struct {
	// Class as in the status of a rollout; Participating stands for a readiness probe that passes.
	Class v1alpha1.PodClass
	// Revision and UID of the pod.
	Revision string
	UID      types.UID
}

// Span is a period in which a pod name kept its state. The newest has no end.
type Span struct {
	State
	From, To time.Time
}

// Life has the spans of each pod name, in order and without holes.
type Life map[string][]Span

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
