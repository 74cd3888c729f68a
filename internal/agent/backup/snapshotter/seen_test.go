// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A revision was seen when the member was first known to have it or a later one. One that is not known is seen now.
func TestSeen(t *testing.T) {
	g := NewWithT(t)
	s, now := &Seen{}, noon.Add(time.Hour)
	seconds := func(revisions ...int64) (all []float64) {
		for _, r := range revisions {
			all = append(all, s.At(r, now).Sub(noon).Seconds())
		}
		return all
	}
	g.Expect(seconds(1)).To(Equal([]float64{3600}))
	for second, revision := range []int64{10, 10, 13, 13, 15} {
		s.Note(revision, noon.Add(time.Duration(second)*time.Second))
	}
	g.Expect(seconds(9, 10, 11, 13, 14, 15, 16)).To(Equal([]float64{0, 0, 2, 2, 4, 4, 3600}))
	g.Expect(s.At(10, now)).To(Equal(noon))
	s.Note(12, noon.Add(5*time.Second))
	g.Expect(seconds(10, 11, 13, 15)).To(Equal([]float64{0, 5, 3600, 3600}), "the member has other data")
	s.Note(10, noon.Add(6*time.Second))
	g.Expect(seconds(10, 11)).To(Equal([]float64{6, 3600}))
}

// What is remembered is bounded: what is long past is known less exactly, and never earlier than it was.
func TestSeenIsBounded(t *testing.T) {
	g := NewWithT(t)
	s := &Seen{}
	const n = 3 * maxMarks
	for i := range int64(n) {
		s.Note(i, time.Unix(i, 0))
	}
	g.Expect(len(s.marks)).To(BeNumerically("<", maxMarks))
	late := func(revision int64) int64 { return s.At(revision, time.Unix(n, 0)).Unix() - revision }
	for i := range int64(n) {
		g.Expect(late(i)).To(And(BeNumerically(">=", 0), BeNumerically("<", 32)), "revision %d", i)
	}
	for i := range int64(maxMarks / 4) {
		g.Expect(late(n-1-i)).To(BeNumerically("<", 2), "of late")
	}
}

// times returns when the events of a delta were seen, in minutes after noon.
func (r *trial) times(s *backup.Snapshot) (minutes []float64) {
	r.t.Helper()
	for _, e := range r.changes(s) {
		minutes = append(minutes, e.Time.Sub(noon).Minutes())
	}
	return minutes
}

// writes has a client write, and the agent see it, a minute later.
func (r *trial) writes() {
	r.clock.Step(time.Minute)
	r.etcd.put("key", 0)
	r.config.Seen.Note(r.etcd.revision, r.clock.Now())
}

// The events of a delta have the times at which the agent saw them, whether or not it collected them then: a restore to a time goes by them.
func TestEventsThatAreCollectedLate(t *testing.T) {
	for name, passes := range map[string]func(*trial, *session) *session{
		"during an upload": func(_ *trial, n *session) *session { return n },
		"while the store was out of reach": func(r *trial, n *session) *session {
			r.Expect(n.gather(t.Context(), r.etcd.revision)).To(Succeed())
			return r.session() // as after a failure
		},
		"by the leader before": func(r *trial, _ *session) *session { return r.session() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, "")
			r.config.Seen = &Seen{}
			n := r.session()
			r.takes(n, backup.Full)
			r.writes()
			r.writes()
			r.clock.Step(time.Minute)
			n = passes(r, n)
			r.etcd.put("not seen yet", 0)
			delta, err := n.delta(t.Context())
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(r.times(delta)).To(Equal([]float64{1, 2, 3}))
		})
	}
}

// slow is an etcd whose revision takes an hour to arrive.
type slow struct {
	*kv
	arrives func()
}

func (s slow) Revision(ctx context.Context) (int64, error) {
	defer s.arrives()
	return s.kv.Revision(ctx)
}

// singly is an etcd that sends each event by itself.
type singly struct{ *kv }

func (s singly) Watch(ctx context.Context, from int64) clientv3.WatchChan {
	to := make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		for response := range s.kv.Watch(ctx, from) {
			for _, e := range response.Events {
				select {
				case to <- clientv3.WatchResponse{Events: []*clientv3.Event{e}}:
				case <-ctx.Done():
				}
			}
		}
	}()
	return to
}

// A delta is of the time until which it has everything, however long it took to collect and to write. One that has less than was asked for ends with
// its last event.
func TestTheTimeOfADelta(t *testing.T) {
	r := newTrial(t, "")
	r.config.Seen = &Seen{}
	n := r.session()
	r.takes(n, backup.Full)
	took := func() (minutes []float64) {
		r.t.Helper()
		before, err := r.store.List(t.Context())
		r.Expect(err).NotTo(HaveOccurred())
		_, err = n.delta(t.Context())
		r.Expect(err).NotTo(HaveOccurred())
		all, err := r.store.List(t.Context())
		r.Expect(err).NotTo(HaveOccurred())
		for _, s := range backup.Sorted(all)[len(before):] {
			minutes = append(minutes, s.Created.Sub(noon).Minutes())
		}
		return minutes
	}
	r.writes()
	r.clock.Step(time.Minute)
	r.Expect(took()).To(Equal([]float64{2}), "nothing else until then")

	r.writes()
	n.config.Etcd = slow{r.etcd, func() { r.clock.Step(time.Hour) }}
	r.Expect(took()).To(Equal([]float64{3}), "what came in that hour is not in it")

	n.config.Etcd = r.etcd
	r.Expect(took()).To(BeEmpty())
	n.config.Etcd = slow{r.etcd, func() { r.writes() }}
	r.writes()
	r.Expect(took()).To(Equal([]float64{65}), "the last event came after the revision was asked for")

	n.config.Etcd, n.config.DeltaLimit = singly{r.etcd}, 1
	r.writes()
	r.writes()
	r.clock.Step(time.Minute)
	r.Expect(took()).To(Equal([]float64{66, 68}), "there was no space for all")
}
