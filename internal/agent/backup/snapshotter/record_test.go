// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// leases record snapshots at an API server that may not answer.
type leases struct {
	mu       sync.Mutex
	away     bool
	recorded backup.Record
	told     []backup.Snapshot
	reads    int
}

func (l *leases) record(s backup.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told = append(l.told, s); !l.away {
		l.recorded = backup.Record{Revision: s.LastRevision, Created: s.Created}
	}
}

func (l *leases) read(context.Context) (backup.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads++; l.away {
		return backup.Record{}, errors.New("no API server")
	}
	return l.recorded, nil
}

// since returns the kinds and revisions that were told since the last call, and how often the record was read.
func (l *leases) since() (told []any, reads int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.told {
		told = append(told, s.Kind, s.LastRevision)
	}
	reads = l.reads
	l.told, l.reads = nil, 0
	return told, reads
}

// The API server does not answer while a leader takes a delta, nor when the next one begins, and nothing is written any more. Once it answers, the delta
// is recorded, by which a recovery decides whether the backup is ahead of the data. What the store cannot be compared with is replaced with a full snapshot,
// as at the start of a leader.
func TestARecordThatCouldNotBeRead(t *testing.T) {
	full, delta := any(backup.Full), any(backup.Delta)
	for name, c := range map[string]struct {
		// before the API server answers; recorded is what it has then.
		before   func(r *trial)
		recorded func(backup.Record) backup.Record
		want     []any
	}{
		"as it was left":                     {want: []any{full, int64(10), delta, int64(11)}},
		"a delta was taken in between":       {before: func(r *trial) { r.etcd.put("b", 0); r.delta() }, want: []any{full, int64(10), delta, int64(12)}},
		"a full snapshot was, which is told": {before: func(r *trial) { r.full() }},
		"a compaction was recorded":          {before: func(r *trial) { r.compact() }, want: []any{full, int64(11)}},
		"an Etcd that was created again":     {recorded: func(backup.Record) backup.Record { return backup.Record{} }, want: []any{full, int64(11)}},
		"the store lacks what is recorded": {
			recorded: func(r backup.Record) backup.Record { return backup.Record{Revision: 99, Created: r.Created} }, want: []any{full, int64(11)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, api := newTrial(t, ""), &leases{}
				r.config.Clock, r.config.Schedule = clock.RealClock{}, "0 0 1 7 *"
				r.config.OnSnapshot, r.config.Recorded = api.record, api.read
				answers := func(does bool) { api.mu.Lock(); defer api.mu.Unlock(); api.away = !does }
				end := r.lead()
				r.full()
				answers(false)
				r.etcd.put("a", 0)
				r.Expect(r.delta().LastRevision).To(Equal(int64(11)))
				end()
				<-time.After(time.Minute)
				r.lead()
				<-time.After(time.Minute)
				if c.before != nil {
					c.before(r)
				}
				api.since()
				<-time.After(time.Minute)
				told, reads := api.since()
				r.Expect(told).To(BeEmpty(), "nothing is known yet")
				r.Expect(reads).To(BeNumerically("<=", 6), "the API server is not asked all the time")
				if c.recorded != nil {
					api.recorded = c.recorded(api.recorded)
				}
				answers(true)
				<-time.After(2 * retryPeriod)
				told, _ = api.since()
				r.Expect(told).To(Equal(c.want))
				<-time.After(time.Hour)
				told, reads = api.since()
				r.Expect(told).To(BeEmpty(), "once is enough")
				r.Expect(reads).To(BeZero())
				r.etcd.put("z", 0)
				r.Expect(r.delta().LastRevision).To(Equal(r.etcd.revision), "deltas continue")
			})
		})
	}
}

// compact adds the full snapshot of a compaction, which has the time of the last snapshot that it contains.
func (r *trial) compact() {
	r.t.Helper()
	chain, err := r.s.Latest(r.t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	compacted := backup.Snapshot{Kind: backup.Full, LastRevision: chain.LastRevision(), Created: chain.Last().Created, Compression: backup.None}
	_, err = r.store.Write(r.t.Context(), compacted, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
	r.Expect(err).NotTo(HaveOccurred())
}

// A compaction adds a full snapshot while a leader begins, and the operator records it. What the leader listed before is older, and is not recorded over it.
func TestTheRecordOfACompactionStays(t *testing.T) {
	r, api := newTrial(t, ""), &leases{}
	r.config.OnSnapshot, r.config.Recorded = api.record, api.read
	end := r.lead()
	r.full()
	r.etcd.put("a", 0)
	r.delta()
	end()
	api.since()
	compact := sync.OnceFunc(r.compact)
	r.config.Recorded = func(ctx context.Context) (backup.Record, error) { compact(); return api.read(ctx) }
	r.lead()
	r.Expect(r.delta()).To(BeNil(), "it has begun")
	told, _ := api.since()
	r.Expect(told).To(Equal([]any{backup.Full, int64(11)}))
}
