// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// lines as etcd 3.7 prints them.
const log = `{"level":"warn","ts":"2026-11-24T12:00:00Z","caller":"txn/util.go:93","msg":"apply request took too long","took":"212.4ms","expected-duration":"100ms","prefix":"read-only range ","request":"key:\"/registry/secrets/demo/a\" ","response":"range_response_count:40000 size:168000000"}
{"level":"warn","ts":"2026-11-24T12:00:01Z","caller":"txn/util.go:93","msg":"apply request took too long","took":"150ms","expected-duration":"100ms","prefix":"","request":"header:<ID:1 > put:<key:\"/registry/secrets/demo/a\" >","response":"size:6"}
{"level":"warn","ts":"2026-11-24T12:00:02Z","caller":"wal/wal.go:805","msg":"slow fdatasync","took":"1.2s","expected-duration":"1s"}
{"level":"info","ts":"2026-11-24T12:00:04Z","caller":"etcdserver/raft.go:1","msg":"raft.node: 1 elected leader 2 at term 3"}
{"level":"warn","ts":"2026-11-24T12:00:05Z","caller":"embed/config_logging.go:1","msg":"rejected connection on client endpoint","remote-addr":"10.0.0.1:1","error":"EOF"}
{"level":"warn","ts":"2026-11-24T12:00:06Z","caller":"embed/config_logging.go:1","msg":"rejected connection on peer endpoint","remote-addr":"10.0.0.1:1","error":"EOF"}
{"level":"warn","ts":"2026-11-24T12:00:07Z","caller":"txn/util.go:93","msg":"apply request took too long","took":"150ms","prefix":"","request":"header:<ID:1 > put:<key:\"/x/no space left on device, slow fdatasync\" >","response":"size:6"}
{"level":"error","ts":"2026-11-24T12:00:08Z","caller":"wal/wal.go:1","msg":"failed to write","error":"write x: no space left on device"}
not JSON: write /var/etcd/data/member/wal/1.wal: no space left on device
`

func linesOf(log string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line := range strings.Lines(log) {
			if !yield([]byte(strings.TrimSuffix(line, "\n")), nil) {
				return
			}
		}
	}
}

func TestParseLogs(t *testing.T) {
	g := NewWithT(t)
	parse := func(text string, began, now time.Time) *Logs {
		l, err := ParseLogs(linesOf(text), began, now)
		g.Expect(err).NotTo(HaveOccurred())
		return l
	}
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	l := parse(log, noon, noon.Add(time.Minute))
	g.Expect(*l).To(Equal(Logs{
		Lines: 9, SlowApply: 3, SlowRanges: 1, LargestAnswer: 168_000_000, SlowSyncs: 1, LeaderChanges: 1, NoSpace: 2, Rejected: 1,
	}))
	later := parse(log, noon.Add(4*time.Minute), noon.Add(5*time.Minute))
	g.Expect(later.Rejected).To(BeZero(), "it is over")
	g.Expect(later.NoSpace).To(Equal(1), "a panic has no time")
	g.Expect(later.SlowSyncs).To(Equal(1), "it was slow")
	g.Expect([]int64{int64(later.SlowApply), int64(later.SlowRanges), later.LargestAnswer}).To(Equal([]int64{0, 0, 0}), "a client that listed much some minutes ago slows nothing now")
	next := parse(log, noon.Add(500*time.Millisecond), noon.Add(time.Minute))
	g.Expect([]int{next.SlowApply, next.SlowRanges, next.Rejected}).To(Equal([]int{2, 0, 1}), "nor if it did just before the measurement")
	g.Expect(fmt.Sprintf("%+v", *l)).NotTo(ContainSubstring("registry"), "keys are tenants' data")
}

// A line that is too long is not judged, and those that follow are; a log that breaks off says nothing.
func TestLinesThatAreTooLong(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	l, err := ParseLogs(linesOf("slow fdatasync "+strings.Repeat("x", MaxLine)+"\nslow fdatasync"), now, now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*l).To(Equal(Logs{Lines: 2, SlowSyncs: 1}))
	l, err = ParseLogs(func(yield func([]byte, error) bool) { _ = yield([]byte("x"), nil) && yield(nil, errors.New("broken")) }, now, now)
	g.Expect(err).To(MatchError(ContainSubstring("broken")))
	g.Expect(l).To(BeNil())
}

func FuzzParseLogs(f *testing.F) {
	f.Add(log)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseLogs(linesOf(text), time.Now(), time.Now()); err != nil {
			t.Error(err)
		}
	})
}
