// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// slow is an etcd after whose answers time passes, as for an agent that is frozen.
type slow struct {
	*kv
	revision, snapshot func()
}

func (s *slow) Revision(ctx context.Context) (int64, error) {
	defer s.revision()
	return s.kv.Revision(ctx)
}

func (s *slow) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	defer s.snapshot()
	return s.kv.Snapshot(ctx)
}

// The time of a snapshot is one until which it has everything, and that of a full one is also, but for a second, one after which it has nothing: a
// database that took longer to read is read again, whenever the time passed.
func TestTheTimeOfASnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		revision, snapshot []time.Duration
		full               time.Duration
		writes             int64
	}{
		"at once":                          {},
		"frozen before the database":       {revision: []time.Duration{time.Hour}, full: time.Hour, writes: 1},
		"frozen after it":                  {snapshot: []time.Duration{time.Hour}, full: time.Hour, writes: 1},
		"as long as is usual":              {snapshot: []time.Duration{time.Second}},
		"always slow":                      {snapshot: []time.Duration{time.Minute, time.Minute, time.Minute}, full: 2 * time.Minute, writes: 2},
		"frozen before a delta is written": {revision: []time.Duration{0, time.Hour}, writes: 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, "")
			passes := func(after *[]time.Duration) func() {
				return func() {
					if len(*after) > 0 && (*after)[0] > 0 {
						r.clock.Step((*after)[0])
						r.etcd.put("in between", 0)
					}
					*after = (*after)[min(1, len(*after)):]
				}
			}
			n := r.session()
			n.config.Etcd = &slow{r.etcd, passes(&c.revision), passes(&c.snapshot)}
			full, err := n.full(t.Context(), false)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(full.Created).To(Equal(noon.Add(c.full)))
			r.Expect(full.LastRevision).To(Equal(10 + c.writes))

			r.etcd.put("a", 0)
			r.clock.Step(time.Hour)
			began := r.clock.Now()
			asked := &request{want: want{kind: backup.Delta}, begun: began, done: make(chan struct{})}
			r.Expect(n.perform(t.Context(), asked)).To(Succeed())
			r.Expect(asked.snapshot.Created).To(Equal(began.Truncate(time.Second)))
			r.Expect(r.s.Current()).To(Equal(began))
		})
	}
}
