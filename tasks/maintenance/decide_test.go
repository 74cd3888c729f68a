// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
)

const mebi = 1 << 20

// world is an Input in the making: a healthy cluster, half of whose databases is free; member 1 leads.
type world struct{ Input }

func newWorld(members int) *world {
	w := &world{Input{
		Config:      Operations{EtcdCompaction: true, EtcdDefragmentation: true},
		Snapshot:    &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Name: "m"}, Cluster: cluster.Cluster{Reachable: true, LeaderKnown: true}},
		Databases:   map[int]etcdclient.Database{},
		AlarmsKnown: true,
	}}
	for i := range members {
		name := fmt.Sprintf("m-%d", i)
		w.Snapshot.Ordinals = append(w.Snapshot.Ordinals, cluster.Ordinal{
			Name: name, Pod: &cluster.Pod{}, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower,
			MemberID: uint64(i + 1), Answers: true, Serving: true, AppliedIndex: 5000,
		})
		w.Snapshot.Cluster.Voters = append(w.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Name: name, Ordinal: i, Serving: true})
		w.Databases[i] = etcdclient.Database{Size: 100 * mebi, InUse: 50 * mebi, Quota: 200 * mebi, Revision: 1000 + int64(i)}
	}
	w.lead(min(1, members-1))
	return w
}

func (w *world) lead(leader int) {
	for i := range w.Snapshot.Ordinals {
		if w.Snapshot.Ordinals[i].Role != v1alpha1.RoleLearner {
			w.Snapshot.Ordinals[i].Role = v1alpha1.RoleFollower
		}
	}
	w.Snapshot.Ordinals[leader].Role = v1alpha1.RoleLeader
	w.Snapshot.Cluster.Leader = uint64(leader + 1)
}

// defragmented: a member's file is as big as what is in it.
func (w *world) defragmented(i int) {
	db := w.Databases[i]
	db.Size = db.InUse
	w.Databases[i] = db
}

// perform carries a step out, and says what it was.
func (w *world) perform(s Step) string {
	switch s.Action {
	case defragment:
		w.defragmented(s.Ordinal)
	case moveLeader:
		w.lead(s.Successor)
		return fmt.Sprintf("MoveLeader m-%d m-%d", s.Ordinal, s.Successor)
	case disarm:
		w.Alarms = w.Alarms[1:]
	}
	return s.name(w.Snapshot.Ordinals)
}

// run decides and performs until the task ends, and returns the steps and the end. With forgetful, each decision
// is that of an operator that has just started.
func (w *world) run(t *testing.T, forgetful bool) ([]string, Decision) {
	t.Helper()
	var steps []string
	for range 50 {
		d := decide(w.Input)
		w.Recorded = d.Result
		if d.Step == nil {
			return steps, d
		}
		steps = append(steps, w.perform(*d.Step))
		if !forgetful || d.Step.Action == compact {
			w.Completed = d.Step.name(w.Snapshot.Ordinals)
		}
	}
	t.Fatalf("the task does not end: %q", steps)
	return nil, Decision{}
}

func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		change  func(*world)
		want    string
		result  map[string]string
	}{
		"followers first, and leadership goes before the leader does": {3, func(*world) {},
			"Compact, Defragment m-0, Defragment m-2, MoveLeader m-1 m-0, Defragment m-1",
			map[string]string{keyRevision: "1001", keyCompacted: "true", "m-1.bytesBefore": "104857600", "m-1.bytesAfter": "52428800", keyFreed: "157286400"}},
		"five": {5, func(w *world) { w.lead(0) },
			"Compact, Defragment m-1, Defragment m-2, Defragment m-3, Defragment m-4, MoveLeader m-0 m-1, Defragment m-0", nil},
		"one, which has no member to hand over to": {1, func(*world) {}, "Compact, Defragment m-0", nil},
		"only compaction":                          {3, func(w *world) { w.Config.EtcdDefragmentation = false }, "Compact", nil},
		"only defragmentation": {3, func(w *world) { w.Config.EtcdCompaction = false },
			"Defragment m-0, Defragment m-2, MoveLeader m-1 m-0, Defragment m-1", nil},
		"learners are skipped": {3, func(w *world) {
			w.Snapshot.Ordinals[2].Role, w.Snapshot.Ordinals[2].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
		}, "Compact, Defragment m-0, MoveLeader m-1 m-0, Defragment m-1", map[string]string{"m-2.skipped": "it is a learner that catches up with the leader"}},
		"nothing to gain": {3, func(w *world) {
			for i := range w.Databases {
				w.Databases[i] = etcdclient.Database{Size: 100 * mebi, InUse: 96 * mebi, Revision: 7}
			}
		}, "Compact", map[string]string{"m-0.skipped": "nothing to gain: 96.0 MiB of 100.0 MiB were in use at its last commit", keyFreed: "0"}},
		"little to gain in a small file": {1, func(w *world) { w.Databases[0] = etcdclient.Database{Size: mebi, InUse: mebi / 4, Revision: 7} }, "Compact", nil},
		"a leader with nothing to gain keeps leading": {3, func(w *world) { w.defragmented(1) },
			"Compact, Defragment m-0, Defragment m-2", nil},
		"without space, every bit counts, and the alarm is disarmed": {3, func(w *world) {
			w.Alarms = []etcdclient.Alarm{{MemberID: 1, Kind: etcdclient.AlarmNoSpace}, {MemberID: 3, Kind: etcdclient.AlarmNoSpace}}
			for i := range w.Databases {
				w.Databases[i] = etcdclient.Database{Size: 100 * mebi, InUse: 97 * mebi, Quota: 99 * mebi, Revision: 7}
			}
		}, "Compact, Defragment m-0, Defragment m-2, MoveLeader m-1 m-0, Defragment m-1, DisarmAlarm m-0, DisarmAlarm m-0", map[string]string{keyDisarmed: "NOSPACE"}},
		"the follower that has caught up most leads next": {3, func(w *world) { w.Snapshot.Ordinals[2].AppliedIndex = 6000 },
			"Compact, Defragment m-0, Defragment m-2, MoveLeader m-1 m-2, Defragment m-1", nil},
	} {
		for _, forgetful := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, forgetful: %v", name, forgetful), func(t *testing.T) {
				g := NewWithT(t)
				w := newWorld(c.members)
				c.change(w)
				steps, end := w.run(t, forgetful)
				g.Expect(strings.Join(steps, ", ")).To(Equal(c.want))
				g.Expect(end.Outcome).To(Equal(tasks.Done), end.Message)
				for key, value := range c.result {
					g.Expect(end.Result).To(HaveKeyWithValue(key, value))
				}
			})
		}
	}
}

// What another operator has announced, and perhaps carried out.
func TestResume(t *testing.T) {
	announced := func(w *world) {
		w.Recorded = map[string]string{keyRevision: "900", keyCompacted: "true", "m-0.bytesBefore": fmt.Sprint(100 * mebi)}
	}
	for name, c := range map[string]struct {
		change func(*world)
		step   string
		says   string
	}{
		"it was never sent": {func(*world) {}, "Defragment m-0", "50.0 MiB of 100.0 MiB free"},
		"it still goes on":  {func(w *world) { delete(w.Databases, 0) }, "", "its defragmentation was asked for, and may still go on"},
		"it was carried out": {func(w *world) { w.defragmented(0) },
			"Defragment m-2", "all members participate"},
		"it was carried out, and the file has grown since": {func(w *world) {
			w.Databases[0] = etcdclient.Database{Size: 90 * mebi, InUse: 60 * mebi}
		}, "Defragment m-2", ""},
		"it was carried out, and the file has grown to where it was": {func(w *world) {
			w.Databases[0] = etcdclient.Database{Size: 100 * mebi, InUse: 99 * mebi}
		}, "Defragment m-2", ""},
		"we know that it was carried out": {func(w *world) { w.Completed = "Defragment m-0" }, "Defragment m-2", ""},
		"another step was carried out":    {func(w *world) { w.Completed = "Defragment m-2" }, "Defragment m-0", ""},
		"a compaction is asked for again at the same revision": {func(w *world) { delete(w.Recorded, keyCompacted) },
			"Compact", "compact to revision 900"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(3)
			announced(w)
			c.change(w)
			d := decide(w.Input)
			g.Expect(d.Outcome).To(Equal(tasks.Continue))
			g.Expect(d.Message).To(ContainSubstring(c.says))
			if c.step == "" {
				g.Expect(d.Step).To(BeNil())
				return
			}
			g.Expect(d.Step).NotTo(BeNil(), d.Message)
			g.Expect(d.Step.name(w.Snapshot.Ordinals)).To(Equal(c.step))
		})
	}
}

func TestNothingIsDoneToAClusterThatIsNotWell(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*world)
		outcome tasks.Outcome
		code    v1alpha1.ErrorCode
		says    string
	}{
		"etcd-druid manages it": {func(w *world) { w.Snapshot.StatefulSet.Foreign = "it is etcd-druid's: stop that" },
			tasks.Fail, v1alpha1.ErrForeignObject, "it is etcd-druid's: stop that"},
		"a member is down":        {func(w *world) { w.Snapshot.Ordinals[2].Class = v1alpha1.ClassDead }, tasks.Continue, "", "m-2 is Dead"},
		"a member is unready":     {func(w *world) { w.Snapshot.Ordinals[2].Class = v1alpha1.ClassUnready }, tasks.Continue, "", "m-2 is Unready"},
		"a member takes no reads": {func(w *world) { delete(w.Databases, 2) }, tasks.Continue, "", "m-2 takes no reads"},
		"a foreign voter is down": {func(w *world) {
			w.Snapshot.Cluster.Voters = append(w.Snapshot.Cluster.Voters, cluster.Voter{Name: "x", Ordinal: -1})
		}, tasks.Continue, "", "x, a voter without a pod"},
		"no member leads":        {func(w *world) { w.Snapshot.Ordinals[1].Role = v1alpha1.RoleFollower }, tasks.Continue, "", "leads"},
		"the alarms are unknown": {func(w *world) { w.AlarmsKnown = false }, tasks.Continue, "", "alarms"},
		"data is corrupt": {func(w *world) { w.Alarms = []etcdclient.Alarm{{MemberID: 3, Kind: etcdclient.AlarmCorrupt}} },
			tasks.Fail, v1alpha1.ErrAlarm, "CORRUPT for member m-2"},
		"every follower is behind": {func(w *world) {
			w.defragmented(0)
			w.defragmented(2)
			w.Recorded = map[string]string{keyRevision: "900", keyCompacted: "true"}
			w.Snapshot.Ordinals[1].AppliedIndex = 9000
		}, tasks.Continue, "", "every follower is more than 1000 raft entries behind"},
		"there is still no space": {func(w *world) {
			w.Alarms = []etcdclient.Alarm{{MemberID: 1, Kind: etcdclient.AlarmNoSpace}}
			w.Recorded = map[string]string{keyRevision: "900", keyCompacted: "true"}
			for i := range w.Databases {
				w.Databases[i] = etcdclient.Database{Size: 100 * mebi, InUse: 100 * mebi, Quota: 100 * mebi}
			}
		}, tasks.Fail, v1alpha1.ErrNoSpace, "m-0 still takes 100.0 MiB of its quota of 100.0 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(3)
			c.change(w)
			d := decide(w.Input)
			g.Expect(d.Step).To(BeNil())
			g.Expect(d.Outcome).To(Equal(c.outcome))
			g.Expect(d.Code).To(Equal(c.code))
			g.Expect(d.Message).To(ContainSubstring(c.says))
		})
	}
}

// Between two members the whole cluster has to be well again.
func TestAMemberIsWaitedForBeforeTheNextOneGoes(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(3)
	w.Config.EtcdCompaction = false
	w.Recorded = decide(w.Input).Result
	w.defragmented(0)
	w.Completed = "Defragment m-0"
	w.Snapshot.Ordinals[0].Class = v1alpha1.ClassUnready
	d := decide(w.Input)
	g.Expect(d.Step).To(BeNil())
	g.Expect(d.Result).To(HaveKeyWithValue("m-0.bytesAfter", fmt.Sprint(50*mebi)))
	g.Expect(d.Progress).To(Equal("1/3"))
	w.Recorded = d.Result
	w.Snapshot.Ordinals[0].Class = v1alpha1.ClassParticipating
	g.Expect(decide(w.Input).Step.Ordinal).To(Equal(2))
}

func TestDecideChangesNothingOfItsInput(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(3)
	w.Recorded = map[string]string{"m-0.bytesBefore": fmt.Sprint(200 * mebi)}
	decide(w.Input)
	g.Expect(w.Recorded).To(HaveLen(1))
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]any{
		"etcdCompaction: true":                              Config{Operations: Operations{EtcdCompaction: true}},
		"{etcdCompaction: true, etcdDefragmentation: true}": Config{Operations: Operations{true, true}},
		"maintenanceType: {etcdDefragmentation: true}":      Config{Operations: Operations{EtcdDefragmentation: true}},
		"":                                     "at least one",
		"etcdCompaction: false":                "at least one",
		"maintenanceType: {}":                  "at least one",
		"etcdCompact: true":                    `unknown field "etcdCompact"`,
		"maintenanceType: {etcdCompact: true}": `unknown field "maintenanceType.etcdCompact"`,
		"etcdCompaction: true\nmaintenanceType: {etcdCompaction: true}": "not both",
	} {
		t.Run(config, func(t *testing.T) {
			g := NewWithT(t)
			c, err := taskconfig.Decode[Config](config)
			if says, ok := want.(string); ok {
				g.Expect(err).To(MatchError(ContainSubstring(says)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c).To(Equal(want))
		})
	}
}
