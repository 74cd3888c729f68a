// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// members note what they are asked to do, and do it to a world.
type members struct {
	mu    sync.Mutex
	world *world
	did   []string
	// fails is what fails, and says the error.
	fails, says string
}

func (m *members) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	if m.fails == "dial "+endpoint {
		return nil, errors.New("refused")
	}
	i := int(endpoint[len(endpoint)-1] - '0')
	return &one{members: m, ordinal: i}, nil
}

// one is a client of a member.
type one struct {
	etcdclient.Client
	members *members
	ordinal int
}

func (o *one) do(what string, change func(w *world)) error {
	o.members.mu.Lock()
	defer o.members.mu.Unlock()
	asked := fmt.Sprintf("m-%d %s", o.ordinal, what)
	o.members.did = append(o.members.did, asked)
	if asked == o.members.fails {
		return errors.New(cmp.Or(o.members.says, "etcd does not"))
	}
	change(o.members.world)
	return nil
}

func (o *one) Compact(_ context.Context, revision int64) error {
	return o.do(fmt.Sprintf("compacts to %d", revision), func(*world) {})
}
func (o *one) Defragment(context.Context) error {
	return o.do("defragments", func(w *world) { w.defragmented(o.ordinal) })
}
func (o *one) MoveLeader(_ context.Context, to uint64) error {
	return o.do(fmt.Sprintf("hands over to %d", to), func(w *world) { w.lead(int(to) - 1) })
}
func (o *one) Disarm(_ context.Context, a etcdclient.Alarm) error {
	return o.do("disarms "+string(a.Kind), func(w *world) { w.Alarms = nil })
}
func (o *one) Database(context.Context) (db etcdclient.Database, err error) {
	err = o.do("tells its size", func(w *world) { db = w.Databases[o.ordinal] })
	return db, err
}
func (o *one) Alarms(context.Context) (alarms []etcdclient.Alarm, err error) {
	err = o.do("tells alarms", func(w *world) { alarms = w.Alarms })
	return alarms, err
}
func (o *one) Close() error { return nil }

// asked are what the members were asked to do, but for what they tell.
func (m *members) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var asked []string
	for _, what := range m.did {
		if what[len(what)-4:] != "size" && what[len(what)-6:] != "alarms" {
			asked = append(asked, what)
		}
	}
	return asked
}

func newMaintenance(t *testing.T) (*machine.WithT, *members, *Handler, tasks.Typed[Config]) {
	m := &members{world: newWorld(3)}
	for i := range m.world.Snapshot.Ordinals {
		m.world.Snapshot.Ordinals[i].Pod.Endpoint = fmt.Sprintf("http://m-%d", i)
	}
	h := &Handler{Observer: observed{snapshot: m.world.Snapshot}, Dialer: m, Credentials: &certificates.Credentials{}}
	object := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: "task"}}
	return machine.Gomega(t), m, h, tasks.Typed[Config]{Task: tasks.Task{Etcd: &v1alpha1.Etcd{}, Object: object}, Config: Config{Operations: Operations{EtcdCompaction: true, EtcdDefragmentation: true}}}
}

// carryOut does what the engine does, until the task ends or fails.
func carryOut(t *testing.T, g *machine.WithT, h *Handler, task tasks.Typed[Config]) (end tasks.Verdict, failure error) {
	g.Eventually(func() bool {
		if end, failure = h.Execute(t.Context(), task); failure != nil || end.Outcome != tasks.Continue {
			return true
		}
		if end.Result != nil {
			task.Object.Status.Result = end.Result
		}
		if end.Step != nil {
			g.Expect(end.Reason).To(Equal(v1alpha1.ReasonRunning))
			failure = h.Perform(t.Context(), task.Task, *end.Step)
		}
		return failure != nil
	}).WithPolling(time.Millisecond).Should(BeTrue())
	return end, failure
}

// A maintenance: every voter compacts, then each is defragmented, the leader last and once it does not lead any more.
func TestMaintenance(t *testing.T) {
	g, m, h, task := newMaintenance(t)
	m.world.Alarms = []etcdclient.Alarm{{Kind: etcdclient.AlarmNoSpace, MemberID: 1}}
	end, err := carryOut(t, g, h, task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(end.Outcome).To(Equal(tasks.Done), end.Message)
	asked := m.asked()
	slices.Sort(asked[:9])
	g.Expect(asked).To(Equal([]string{
		"m-0 compacts to 1001", "m-0 compacts to 1001", "m-0 compacts to 1001", "m-1 compacts to 1001", "m-1 compacts to 1001", "m-1 compacts to 1001", "m-2 compacts to 1001", "m-2 compacts to 1001", "m-2 compacts to 1001", "m-0 defragments", "m-2 defragments", "m-1 hands over to 1", "m-1 defragments", "m-0 disarms NOSPACE",
	}))
	g.Expect(h.Cleanup(t.Context(), task.Task)).To(Succeed())
	_, known := h.calls.Of("task")
	g.Expect(known).To(BeFalse())
}

// A learner, and a member that tells nothing of its database, do not compact.
func TestWhoCompacts(t *testing.T) {
	g, m, h, task := newMaintenance(t)
	m.world.Snapshot.Ordinals[0].Role, m.world.Snapshot.Ordinals[2].Answers = v1alpha1.RoleLearner, false
	in, err := h.gather(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(in.AlarmsKnown).To(BeTrue())
	g.Expect(in.Databases).To(And(HaveKey(0), HaveKey(1), Not(HaveKey(2))))
	g.Expect(h.compact(t.Context(), task.Etcd, detail{Step{Revision: 7}, in})).To(Succeed())
	g.Expect(m.asked()).To(Equal([]string{"m-1 compacts to 7", "m-1 compacts to 7", "m-1 compacts to 7"}))
	m.world.lead(0)
	m.fails = "m-0 tells alarms"
	in, err = h.gather(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(in.AlarmsKnown).To(BeFalse(), "nothing is moved while they are not known")
}

// insist does what the engine does, which executes a task again after an error.
func insist(t *testing.T, g *machine.WithT, h *Handler, task tasks.Typed[Config]) (end tasks.Verdict) {
	for range 10 {
		var err error
		if end, err = carryOut(t, g, h, task); err == nil {
			return end
		}
	}
	return end
}

// Each defragmentation that fails has stopped a member: the second one ends the task, also after a restart of the operator.
func TestADefragmentationThatEtcdRefusesAgainAndAgain(t *testing.T) {
	for says, hint := range map[string]string{
		"write /data/db.tmp: no space left on device": "free space on the volume of m-0",
		"bolt: page is broken":                        "check the log of m-0",
	} {
		g, m, h, task := newMaintenance(t)
		task.Config.EtcdCompaction = false
		m.fails, m.says = "m-0 defragments", says
		end := insist(t, g, h, task)
		g.Expect(end.Outcome).To(Equal(tasks.Fail))
		g.Expect(end.Code).To(Equal(v1alpha1.ErrMaintenance))
		g.Expect(end.Message).To(And(ContainSubstring("m-0 was asked 2 times to defragment its database"), ContainSubstring(says), ContainSubstring(hint)))
		g.Expect(m.asked()).To(Equal([]string{"m-0 defragments", "m-0 defragments"}))
		g.Expect(task.Object.Status.Result).To(HaveKeyWithValue("m-0.attempts", "2"))
		v, err := h.Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Outcome).To(Equal(tasks.Fail), "while its end could not be written")

		h.calls.Forget("task")
		g.Expect(insist(t, g, h, task).Outcome).To(Equal(tasks.Fail))
		g.Expect(m.asked()).To(HaveLen(3))
	}
}

// One whose answer was an error may have been carried out: what the database shows counts.
func TestADefragmentationThatWasCarriedOutInSpiteOfItsError(t *testing.T) {
	g, m, h, task := newMaintenance(t)
	task.Config.EtcdCompaction = false
	m.fails = "m-0 defragments"
	_, err := carryOut(t, g, h, task)
	g.Expect(err).To(HaveOccurred())
	v, err := h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	task.Object.Status.Result = v.Result
	g.Expect(h.Perform(t.Context(), task.Task, *v.Step)).To(Succeed())
	g.Eventually(m.asked).WithPolling(time.Millisecond).Should(HaveLen(2))
	m.mu.Lock()
	m.world.defragmented(0)
	m.mu.Unlock()
	end := insist(t, g, h, task)
	g.Expect(end.Outcome).To(Equal(tasks.Done), end.Message)
	g.Expect(m.asked()).To(Equal([]string{"m-0 defragments", "m-0 defragments", "m-2 defragments", "m-1 hands over to 1", "m-1 defragments"}))
}

// What etcd refuses comes back, and is asked for again.
func TestWhatEtcdRefuses(t *testing.T) {
	for fails, says := range map[string]string{
		"m-0 compacts to 1001": "etcd does not", "m-0 defragments": "etcd does not", "m-1 hands over to 1": "etcd does not", "m-0 disarms NOSPACE": "etcd does not",
	} {
		t.Run(fails, func(t *testing.T) {
			g, m, h, task := newMaintenance(t)
			m.world.Alarms, m.fails = []etcdclient.Alarm{{Kind: etcdclient.AlarmNoSpace, MemberID: 1}}, fails
			v, err := carryOut(t, g, h, task)
			g.Expect(err).To(MatchError(ContainSubstring(says)))
			g.Expect(coded.Of(err, "") == v1alpha1.ErrMoveLeader).To(Equal(fails == "m-1 hands over to 1"))
			_ = v
			m.mu.Lock()
			m.fails = ""
			m.mu.Unlock()
			end, err := carryOut(t, g, h, task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(end.Outcome).To(Equal(tasks.Done), end.Message)
		})
	}
	g, _, h, task := newMaintenance(t)
	h.Observer = observed{err: errors.New("no answer")}
	_, err := h.Execute(t.Context(), task)
	g.Expect(err).To(MatchError("no answer"))
	h.Observer = observed{err: observe.ErrNoStatefulSet}
	v, err := h.Execute(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(v.Code).To(Equal(v1alpha1.ErrStatefulSetNotFound))
	in := newWorld(1).Input
	g.Expect(h.Perform(t.Context(), task.Task, tasks.Step{Detail: detail{Step{Action: "Fly"}, in}})).To(MatchError("performing Fly: no such action"))
	g.Expect(defragmentTimeout(task.Etcd)).To(Equal(lastingTimeout))
	task.Etcd.Spec.Etcd.EtcdDefragTimeout = &metav1.Duration{Duration: time.Minute}
	g.Expect(defragmentTimeout(task.Etcd)).To(Equal(time.Minute))
}
