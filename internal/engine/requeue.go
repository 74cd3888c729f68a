// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// requeue collects when to reconcile again.
type requeue struct{ after time.Duration }

func (q *requeue) in(d time.Duration) { q.after = sooner(q.after, d) }

func (q *requeue) result() ctrl.Result { return ctrl.Result{RequeueAfter: q.after} }

// sooner is the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
