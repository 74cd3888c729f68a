// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A member is away while it is defragmented: not for less than a mebibyte and a twentieth, but for any mebibyte where there is no space.
func TestIsWorthIt(t *testing.T) {
	database := func(size, free int64) etcdclient.Database { return etcdclient.Database{Size: size, InUse: size - free} }
	for name, tc := range map[string]struct {
		db      etcdclient.Database
		noSpace bool
		worthIt bool
	}{
		"a twentieth":                  {database(20*mebi, mebi), false, true},
		"a little less":                {database(20*mebi+1, mebi), false, false},
		"less than a mebibyte":         {database(2*mebi, mebi-1), false, false},
		"a mebibyte, without space":    {database(100*mebi, mebi), true, true},
		"less than one, without space": {database(2*mebi, mebi-1), true, false},
	} {
		s := &work{}
		if tc.noSpace {
			s.Alarms = []etcdclient.Alarm{{Kind: etcdclient.AlarmNoSpace}}
		}
		NewWithT(t).Expect(s.isWorthIt(tc.db)).To(Equal(tc.worthIt), name)
	}
}

// Leadership goes to a follower that is done and not far behind, the most advanced of these; to no learner.
func TestHandover(t *testing.T) {
	done := func(s *work, names ...string) {
		for _, name := range names {
			s.record = s.record.with(name+"."+keySkipped, "done")
		}
	}
	for name, tc := range map[string]struct {
		change func(s *work)
		to     int // -1: to none
	}{
		"the most advanced": {func(s *work) { done(s, "m-0", "m-2"); s.Snapshot.Ordinals[2].AppliedIndex = 5001 }, 2},
		"one is not done":   {func(s *work) { done(s, "m-0"); s.Snapshot.Ordinals[2].AppliedIndex = 5001 }, 0},
		"one is a learner": {func(s *work) {
			done(s, "m-0", "m-2")
			s.Snapshot.Ordinals[2].Role, s.Snapshot.Ordinals[2].AppliedIndex = v1alpha1.RoleLearner, 5001
		}, 0},
		"just near enough": {func(s *work) { done(s, "m-0"); s.Snapshot.Ordinals[0].AppliedIndex = 5000 - maxLag }, 0},
		"too far behind":   {func(s *work) { done(s, "m-0"); s.Snapshot.Ordinals[0].AppliedIndex = 5000 - maxLag - 1 }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &work{Input: newWorld(3).Input, record: record{}}
			tc.change(s)
			d := s.handover(1)
			if tc.to < 0 {
				g.Expect(d.Step).To(BeNil())
				g.Expect(d.Message).To(ContainSubstring("more than 1000 raft entries behind"))
				return
			}
			g.Expect(d.Step.Successor).To(Equal(tc.to))
		})
	}
}

// What a defragmentation costs is said: the only voter stops.
func TestCostOfADefragmentation(t *testing.T) {
	g := NewWithT(t)
	one := &work{Input: newWorld(1).Input, record: record{}}
	g.Expect(one.votes()).To(Equal(1))
	g.Expect(one.defragment(0).Message).To(Equal("m-0 has 50.0 MiB of 100.0 MiB free; it is the only voter: reads and writes stop until it is done"))
	three := &work{Input: newWorld(3).Input, record: record{}}
	three.Snapshot.Ordinals[2].Role = v1alpha1.RoleLearner
	g.Expect(three.votes()).To(Equal(2))
	g.Expect(three.defragment(0).Message).To(HaveSuffix("all members participate, and the others keep serving"))
}

// A voter without a pod is in the way while it does not serve.
func TestForeignVoters(t *testing.T) {
	for name, tc := range map[string]struct {
		voter cluster.Voter
		waits bool
	}{
		"one that serves":             {cluster.Voter{Name: "other", Ordinal: -1, Serving: true}, false},
		"one that does not":           {cluster.Voter{Name: "other", Ordinal: -1}, true},
		"a member that does not, yet": {cluster.Voter{Name: "m-0", Ordinal: 0}, false},
	} {
		s := &work{Input: newWorld(3).Input, record: record{}}
		s.Snapshot.Cluster.Voters = append(s.Snapshot.Cluster.Voters, tc.voter)
		d := s.healthy()
		NewWithT(t).Expect(d != nil).To(Equal(tc.waits), name)
	}
}

// The end says what was done.
func TestEnd(t *testing.T) {
	g := NewWithT(t)
	s := &work{Input: newWorld(3).Input, record: record{}}
	s.record = s.record.with(keyRevision, "42").withMember("m-0", keyBefore, 3<<30).withMember("m-0", keyAfter, 2<<30)
	g.Expect(*s.end()).To(Equal(Decision{Outcome: tasks.Done, Message: "compacted to revision 42; defragmented 1 of 3 members, which freed 1.0 GiB"}))
	s.Config.EtcdCompaction = false
	g.Expect(s.end().Message).To(Equal("defragmented 1 of 3 members, which freed 1.0 GiB"))
	s.Config = Operations{EtcdCompaction: true}
	g.Expect(s.end().Message).To(Equal("compacted to revision 42"))
	g.Expect(s.memberName(2)).To(Equal("m-1"))
	g.Expect(s.memberName(0xab)).To(Equal("ab"))
	g.Expect(size(1<<30 - 1)).To(Equal("1024.0 MiB"))
}

// A quota that is not known is none; one that is reached keeps the alarm.
func TestSpace(t *testing.T) {
	for name, tc := range map[string]struct {
		size, quota int64
		fails       bool
	}{"within": {mebi, 2 * mebi, false}, "reached": {2 * mebi, 2 * mebi, true}, "not known": {mebi, 0, false}} {
		s := &work{Input: newWorld(1).Input, record: record{}}
		s.Alarms = []etcdclient.Alarm{{Kind: etcdclient.AlarmNoSpace, MemberID: 1}}
		s.Databases[0] = etcdclient.Database{Size: tc.size, Quota: tc.quota}
		NewWithT(t).Expect(s.space().Outcome == tasks.Fail).To(Equal(tc.fails), name)
	}
}

// observed is what an observation shows.
type observed struct {
	snapshot *cluster.Snapshot
	err      error
}

func (o observed) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	return o.snapshot, o.err
}

func TestAdmit(t *testing.T) {
	g := NewWithT(t)
	broken, lost := errors.New("no answer"), clustertest.Healthy(3)
	clustertest.Away(lost, 0, v1alpha1.ClassUnready, "")
	clustertest.Away(lost, 1, v1alpha1.ClassUnready, "")
	admit := func(o observed) (tasks.Verdict, error) {
		return (&Handler{Observer: o}).Admit(t.Context(), tasks.Typed[Config]{Task: tasks.Task{Etcd: &v1alpha1.Etcd{}, Object: &v1alpha1.EtcdOperatorTask{}}})
	}
	v, err := admit(observed{err: observe.ErrNoStatefulSet})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
	_, err = admit(observed{err: broken})
	g.Expect(err).To(MatchError(broken))
	v, err = admit(observed{snapshot: lost})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Code).To(Equal(v1alpha1.ErrNoQuorum))
	v, err = admit(observed{snapshot: clustertest.Healthy(3)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Continue))
	h := &Handler{}
	_, err = taskconfig.Recorded[Config]("x")
	g.Expect(err).To(MatchError(ContainSubstring("status.config: ")))
	key, err := h.WorkKey(t.Context(), tasks.Typed[Config]{Config: Config{Operations: Operations{EtcdCompaction: true}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(ContainSubstring("true"))
}

// While a call lasts, nothing is observed, and the task waits for it.
func TestACallIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	h := &Handler{Observer: observed{err: errors.New("not asked")}}
	h.calls.Start(t.Context(), "task", "Compact", time.Minute, func(ctx context.Context) (struct{}, error) {
		<-ctx.Done()
		return struct{}{}, ctx.Err()
	})
	task := tasks.Typed[Config]{Task: tasks.Task{Etcd: &v1alpha1.Etcd{}, Object: &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: "task"}}}}
	v, err := h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Outcome).To(Equal(tasks.Continue))
	g.Expect(v.Message).To(Equal("under way: Compact"))
	g.Expect(v.RequeueAfter).To(Equal(pollInterval))
	g.Expect(h.Cleanup(t.Context(), task.Task)).To(Succeed())
	_, err = h.Execute(t.Context(), task)
	g.Expect(err).To(MatchError(ContainSubstring("not asked")), "it is forgotten with the task")
}

// A compaction counts as completed if its revision is recorded.
func TestACompactionWithoutARevisionIsNotCompleted(t *testing.T) {
	for recorded, want := range map[string]bool{"": false, "7": true} {
		s := &work{Input: Input{Completed: string(compact), Snapshot: &cluster.Snapshot{}}, record: record{}}
		if recorded != "" {
			s.record = record{keyRevision: recorded}
		}
		s.settle()
		if s.record.isCompacted() != want {
			t.Errorf("revision %q: %v", recorded, s.record)
		}
	}
}
