// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/plan"
)

func TestMain(m *testing.M) {
	rollout.Foresee = func(in rollout.Input, now time.Time) rollout.Plan {
		p := plan.Foresee(in, now)
		same := rollout.Plan{End: p.End, Elections: p.Elections}
		for _, e := range p.Entries {
			same.Entries = append(same.Entries, rollout.Entry(e))
		}
		return same
	}
	m.Run()
}
