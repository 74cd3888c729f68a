// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// witness is an Observer that has been told what to say, and how long it takes.
type witness struct {
	clock *clocktesting.FakePassiveClock
	says  *cluster.Snapshot
	takes time.Duration
}

func (w *witness) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	s := *w.says
	s.At = w.clock.Now()
	w.clock.SetTime(s.At.Add(w.takes))
	return &s, nil
}

// trial is a recovery that waits whether the quorum stays lost.
type trial struct {
	Gomega
	t       *testing.T
	clock   *clocktesting.FakePassiveClock
	witness *witness
	api     client.Client
	handler *Handler
	task    tasks.Typed[Config]
	// said is the last verdict.
	said tasks.Verdict
}

func newTrial(t *testing.T) *trial {
	now := clocktesting.NewFakePassiveClock(epoch)
	r := &trial{Gomega: NewWithT(t), t: t, clock: now, witness: &witness{clock: now, says: newInput().Snapshot}}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	r.task = tasks.Typed[Config]{Task: tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}, Etcd: etcd}}
	r.task.Object.Namespace, r.task.Object.UID, r.task.Object.Generation = "ns", "task", 1
	r.lives(etcd.DeepCopy())
	r.restart()
	return r
}

// restart has another operator take over.
func (r *trial) restart() {
	r.handler = &Handler{Observer: r.witness, Clock: r.clock, Client: r.api, Live: r.api}
}

// lives has the API server show an Etcd.
func (r *trial) lives(etcd *v1alpha1.Etcd) {
	r.api = apitest.API(etcd)
}

// look has the handler look, a second later, and returns the phase that follows.
func (r *trial) look() v1alpha1.RecoveryPhase {
	r.t.Helper()
	r.clock.SetTime(r.clock.Now().Add(time.Second))
	v, err := r.handler.Execute(r.t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.task.Object.Status.Recovery, r.said = v.Recovery, v
	return v.Recovery.Phase
}

// lose has the quorum be lost for a while, seen every second.
func (r *trial) lose(d time.Duration) (phase v1alpha1.RecoveryPhase) {
	r.t.Helper()
	for range int(d / time.Second) {
		phase = r.look()
	}
	return phase
}

func TestMembersAreStoppedAfterTheGracePeriod(t *testing.T) {
	r := newTrial(t)
	r.Expect(r.lose(30 * time.Second)).To(Equal(v1alpha1.RecoveryConfirming))
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryStopping))
}

// That the quorum is lost counts only as long as it is observed: whatever the status says of the time before, it may have
// been there since, and a single look may meet an election.
func TestGracePeriodBeginsAgain(t *testing.T) {
	unsure := newInput(func(in *Input) {
		in.Snapshot.Ordinals[0].Pod, in.Snapshot.Ordinals[1].Pod = &cluster.Pod{EtcdStarted: epoch}, &cluster.Pod{EtcdStarted: epoch}
	}).Snapshot
	for name, interrupt := range map[string]func(*trial){
		"another operator takes over":          func(r *trial) { r.restart() },
		"not observed for a while":             func(r *trial) { r.clock.SetTime(r.clock.Now().Add(10 * time.Second)) },
		"not observed for hours":               func(r *trial) { r.clock.SetTime(r.clock.Now().Add(2 * time.Hour)) },
		"the task is suspended, and goes on":   func(r *trial) { r.task.Object.Generation += 2 },
		"the clock was wrong when it was seen": func(r *trial) { r.restart(); r.clock.SetTime(r.clock.Now().Add(-time.Hour)) },
		"members may run that do not answer": func(r *trial) {
			lost := r.witness.says
			r.witness.says = unsure
			r.look()
			r.witness.says = lost
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t)
			r.lose(30 * time.Second)
			before := r.task.Object.Status.Recovery.LostSince
			interrupt(r)
			r.Expect(r.look()).To(Equal(v1alpha1.RecoveryConfirming))
			r.Expect(r.task.Object.Status.Recovery.LostSince).NotTo(Equal(before), "people see since when it counts")
			r.Expect(r.said.LastOperation).NotTo(BeNil(), "and it is written at once")
			r.look()
			r.Expect(r.said.LastOperation).To(BeNil(), "but once")
			r.Expect(r.lose(26 * time.Second)).To(Equal(v1alpha1.RecoveryConfirming))
			r.Expect(r.lose(4 * time.Second)).To(Equal(v1alpha1.RecoveryStopping))
		})
	}
}

// Members are not stopped while they may be running on nodes that have fallen silent, whatever those reported last. Once the nodes report again,
// nothing is waited for a second time.
func TestMembersAreNotStoppedOnTheLastReportOfSilentNodes(t *testing.T) {
	r := newTrial(t)
	r.witness.says = newInput(func(in *Input) {
		for i := range 2 {
			in.Snapshot.Ordinals[i].Class, in.Snapshot.Ordinals[i].Pod = v1alpha1.ClassDead, &cluster.Pod{Node: cluster.Node{Name: "n"}}
		}
	}).Snapshot
	silent, fails := true, false
	r.handler.Live = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			lease, ok := into.(*coordinationv1.Lease)
			switch {
			case !ok:
				return c.Get(ctx, key, into, options...)
			case fails:
				return errors.New("no answer")
			}
			renewed := r.clock.Now()
			if silent {
				renewed = renewed.Add(-9 * time.Second)
			}
			lease.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: renewed}}}
			return nil
		},
	})
	r.handler.Client = interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.NewTime(r.clock.Now()))
			return nil
		},
	})
	r.Expect(r.lose(30 * time.Second)).To(Equal(v1alpha1.RecoveryConfirming))
	r.Expect(r.said.Message).To(ContainSubstring("all members are stopped once"), "no Lease is read until then")
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryConfirming))
	r.Expect(r.said.Message).To(ContainSubstring("main-0, main-1 do not answer, may be running, and would be a quorum"))
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryConfirming))
	r.Expect(r.said.LastOperation).To(BeNil(), "it is written once")
	fails = true
	_, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
	silent, fails = false, false
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryStopping))
}

// Two operators observe at the same time, for a while: one that was paused, and its successor. Neither corrects what the other shows without
// a pause, whether the other began later or does not see the loss.
func TestTwoOperatorsDoNotCorrectEachOther(t *testing.T) {
	unsure := newInput(func(in *Input) {
		in.Snapshot.Ordinals[0].Pod, in.Snapshot.Ordinals[1].Pod = &cluster.Pod{EtcdStarted: epoch}, &cluster.Pod{EtcdStarted: epoch}
	}).Snapshot
	for name, sees := range map[string]*cluster.Snapshot{"both see the loss": nil, "one does not": unsure} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t)
			r.lose(5 * time.Second)
			first, lost := r.handler, r.witness.says
			r.restart()
			second := r.handler
			r.look()
			r.Expect(r.said.LastOperation).NotTo(BeNil(), "the second one begins")
			corrections := 0
			for range 8 {
				r.handler, r.witness.says = first, lost
				r.look()
				if r.said.LastOperation != nil {
					corrections++
				}
				if r.handler = second; sees != nil {
					r.witness.says = sees
				}
				r.look()
			}
			r.Expect(corrections).To(BeZero())
		})
	}
}

// A look that took so long that it says nothing of the present.
func TestLookThatIsTooOld(t *testing.T) {
	r := newTrial(t)
	r.lose(30 * time.Second)
	r.witness.takes = 11 * time.Second
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryConfirming))
}

// What is remembered of a task goes with it.
func TestMemoryEndsWithTheTask(t *testing.T) {
	r := newTrial(t)
	r.lose(30 * time.Second)
	r.Expect(r.handler.Cleanup(r.t.Context(), r.task.Task)).To(Succeed())
	r.Expect(r.handler.losses.Of(r.task.Object.UID)).To(BeZero())
	r.Expect(r.look()).To(Equal(v1alpha1.RecoveryConfirming))
}

// A cache that lags shows a cluster that is smaller than it is: the volumes of the others would be left out.
func TestEveryVolumeOfTheLiveEtcdIsSurveyed(t *testing.T) {
	r := newTrial(t)
	live := r.task.Etcd.DeepCopy()
	live.Status.ClusterSize = 5
	r.lives(live)
	r.restart()
	r.witness.says = newInput(hold()).Snapshot
	r.witness.says.StatefulSet.HeldAtZeroBy = r.task.Object.UID
	for i := range int32(5) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: live.ClaimName(i), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: live.Name}}}
		r.Expect(r.api.Create(t.Context(), claim)).To(Succeed())
	}
	r.task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying}
	v, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Step.Detail.(newcluster.Survey).Volumes).To(HaveLen(5))

	live.UID = "another"
	live.ResourceVersion = ""
	r.lives(live)
	r.restart()
	_, err = r.handler.Execute(t.Context(), r.task)
	r.Expect(err).To(MatchError(ContainSubstring("it is another one now")))
}

// lease makes the Lease of the full snapshots.
func (r *trial) lease(owner types.UID, revision string) {
	r.t.Helper()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-full-snap"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &revision, RenewTime: &metav1.MicroTime{Time: epoch}},
	}
	if owner != "" {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: owner, Controller: ptr.To(true)}}
	}
	r.Expect(r.api.Create(r.t.Context(), lease)).To(Succeed())
}

// A lease of the right name may be another owner's, and a backup that does not exist cannot be restored.
func TestABackupIsBelievedOfTheEtcdsOwnLease(t *testing.T) {
	for owner, known := range map[types.UID]bool{"etcd": true, "earlier": false, "": false} {
		r := newTrial(t)
		etcd := r.task.Etcd.DeepCopy()
		etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
		r.lease(owner, "42")
		found, err := r.handler.newestBackup(t.Context(), etcd)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(found != Backup{}).To(Equal(known), "controlled by %q: %+v", owner, found)
	}
}

// The StatefulSet is scaled up while the volumes are surveyed. The members may have written until they are stopped again, so
// what was found before does not count.
func TestVolumesAreSurveyedAgainOnceMembersHaveRun(t *testing.T) {
	r := newTrial(t)
	r.lives(r.task.Etcd)
	r.restart()
	r.witness.says = newInput(hold()).Snapshot
	r.witness.says.StatefulSet.HeldAtZeroBy, r.witness.says.StatefulSet.Generation = r.task.Object.UID, 7
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: r.task.Etcd.ClaimName(0), UID: "claim", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: r.task.Etcd.Name}}}
	r.Expect(r.api.Create(t.Context(), claim)).To(Succeed())
	r.task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying}
	execute := func() tasks.Verdict {
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		return v
	}
	v := execute()
	r.Expect(v.Step.Detail.(newcluster.Survey).Volumes[0].State).To(Equal(survey.Unseen))
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
	r.Expect(execute().Step).To(BeNil(), "its Job works")

	// Scaled up, and to zero again.
	r.witness.says.StatefulSet.Generation = 9
	v = execute()
	r.Expect(v.Step).NotTo(BeNil())
	r.Expect(v.Step.Detail.(newcluster.Survey).Volumes[0].State).To(Equal(survey.Abandoned))
}

// The pods of etcd-druid do not read how their cluster is recovered: started again, they would be the lost cluster.
func TestPodsOfDruidAreNotRecovered(t *testing.T) {
	r := newTrial(t)
	etcd := r.task.Etcd.DeepCopy()
	etcd.Status.ClusterID = "cafe"
	r.lives(etcd)
	r.restart()
	r.witness.says.StatefulSet.Name, r.witness.says.StatefulSet.OfDruid = "main", true
	v, err := r.handler.Admit(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Outcome).To(Equal(tasks.Reject))
	r.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
	r.Expect(v.Message).To(ContainSubstring("the pods of StatefulSet main are etcd-druid's"))
}

// Members that wait for a recovery have set aside what they had before. Whether there is nothing to recover, the survey finds out.
func TestMembersOfAnUnfinishedRecoveryMayHaveSetDataAside(t *testing.T) {
	for _, unfinished := range []bool{false, true} {
		r := newTrial(t)
		etcd := r.task.Etcd.DeepCopy()
		etcd.Status.ClusterID = "cafe"
		if unfinished {
			etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "first", Member: "main-0", Source: v1alpha1.RecoverFromData, PreviousClusterID: "ace"}
		}
		r.lives(etcd)
		r.restart()
		for i := range r.witness.says.Ordinals {
			r.witness.says.Ordinals[i].Pod = &cluster.Pod{Refusal: &cluster.Refusal{Reason: v1alpha1.ReasonDataLost}}
		}
		v, err := r.handler.Admit(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Code == v1alpha1.ErrNothingToRecover).To(Equal(!unfinished), v.Message)
	}
}
