// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changing runs a cluster whose members change, with the tasks that the operator creates.
func changing(t *testing.T, from int32, do func(ctx context.Context, r *run)) {
	t.Helper()
	agent := disturb.NewAgent()
	defer agent.Close()
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, scenario: scenario{name: "members", whole: true, from: from, replicas: from}, agent: agent}
		w, err := inmemory.New(r.scenario.newEtcd(), time.Now)
		must(t, err)
		r.world = w
		r.build(t.Context(), r.scenario.newEtcd())
		r.armed = true
		do(t.Context(), r)
		if len(r.broken) > 0 {
			t.Errorf("broken: %v", r.broken)
		}
	})
}

// settled waits until the members are the first so many, all of them vote, and the Etcd says so.
func (r *run) settled(ctx context.Context, n int32) {
	r.t.Helper()
	r.until(ctx, fmt.Sprintf("there are %d members", n), func() bool {
		etcd := &v1alpha1.Etcd{}
		must(r.t, r.world.Get(ctx, mainKey, etcd))
		set, err := r.world.StatefulSet(ctx)
		must(r.t, err)
		for i := range r.world.Members.Names {
			if _, votes, _ := r.world.Members.Lists(i); votes != (int32(i) < n) {
				return false
			}
		}
		return etcd.Status.Conditions.IsTrue(v1alpha1.ConditionScaled) && etcd.Status.Conditions.IsTrue(v1alpha1.ConditionAllMembersReady) &&
			*set.Spec.Replicas == n && etcd.Status.ClusterSize == n && r.ended(ctx)
	})
}

// ended reports whether every task has ended.
func (r *run) ended(ctx context.Context) bool {
	all := &v1alpha1.EtcdOperatorTaskList{}
	must(r.t, r.world.List(ctx, all))
	return !slices.ContainsFunc(all.Items, func(t v1alpha1.EtcdOperatorTask) bool { return !t.Status.State.IsFinal() })
}

// lead has the member at an index lead.
func (r *run) lead(ctx context.Context, index int) {
	m := r.world.Members
	c, err := m.Dial(m.Endpoints[m.Leader()], nil)
	must(r.t, err)
	must(r.t, c.MoveLeader(ctx, m.ID(index)))
}

// From one member to three to five, and back: one change at a time, and the leader hands over before it goes.
func TestMembersComeAndGo(t *testing.T) {
	changing(t, 1, func(ctx context.Context, r *run) {
		for _, n := range []int32{3, 5} {
			r.resize(ctx, n)
			r.settled(ctx, n)
		}
		r.lead(ctx, 4)
		moved := len(r.world.Members.Moves())
		for _, n := range []int32{3, 1} {
			r.resize(ctx, n)
			r.settled(ctx, n)
		}
		want := []string{
			"add main-1", "promote main-1", "add main-2", "promote main-2", "add main-3", "promote main-3", "add main-4", "promote main-4",
			"remove main-4", "remove main-3", "remove main-2", "remove main-1",
		}
		if got := r.world.Members.Changes(); !slices.Equal(got, want) {
			t.Errorf("the list changed by %v", got)
		}
		if got := len(r.world.Members.Moves()) - moved; got != 1 {
			t.Errorf("leadership moved %d times", got)
		}
	})
}

// The goal changes half-way: the task is superseded, and the next one turns round.
func TestTheGoalTurnsRound(t *testing.T) {
	changing(t, 3, func(ctx context.Context, r *run) {
		r.resize(ctx, 5)
		r.until(ctx, "a fourth member is listed", func() bool { listed, _, _ := r.world.Members.Lists(3); return listed })
		r.resize(ctx, 3)
		r.settled(ctx, 3)
		r.resize(ctx, 1)
		r.until(ctx, "a member has left", func() bool { listed, _, _ := r.world.Members.Lists(2); return !listed })
		r.resize(ctx, 3)
		r.settled(ctx, 3)
	})
}

// Someone removes a member by etcdctl, before and while members change: its pod is replaced, and it joins again.
func TestSomeoneChangesTheList(t *testing.T) {
	changing(t, 3, func(ctx context.Context, r *run) {
		r.world.Members.Forget(1)
		r.settled(ctx, 3)
		if r.world.Removed()["main-1"] != 1 {
			t.Errorf("removed %v", r.world.Removed())
		}
		r.resize(ctx, 5)
		r.until(ctx, "a fourth member is listed", func() bool { listed, _, _ := r.world.Members.Lists(3); return listed })
		r.world.Members.Forget(3)
		r.settled(ctx, 5)
	})
}

// Someone scales the StatefulSet: no member that is listed stays without a pod, and no pod stays without a member.
func TestSomeoneScalesTheStatefulSet(t *testing.T) {
	changing(t, 3, func(ctx context.Context, r *run) {
		for _, n := range []int32{2, 4} {
			set, err := r.world.StatefulSet(ctx)
			must(t, err)
			set.Spec.Replicas = &n
			must(t, r.world.Update(ctx, set))
			for range 3 {
				_ = r.round(ctx)
			}
			r.settled(ctx, 3)
		}
		if got := r.world.Members.Changes(); len(got) > 0 {
			t.Errorf("the list changed by %v", got)
		}
	})
}

// Without consent a cluster does not shrink to one member.
func TestOneMemberTakesConsent(t *testing.T) {
	changing(t, 3, func(ctx context.Context, r *run) {
		etcd := &v1alpha1.Etcd{}
		must(t, r.world.Get(ctx, mainKey, etcd))
		etcd.Spec.Replicas = 1
		must(t, r.world.Update(ctx, etcd))
		r.until(ctx, "it says so", func() bool {
			must(t, r.world.Get(ctx, mainKey, etcd))
			c := etcd.Status.Conditions.Find(v1alpha1.ConditionScaled)
			return c != nil && c.Reason == v1alpha1.ReasonSingleMemberNotAllowed
		})
		for range 50 {
			_ = r.round(ctx)
		}
		if got := r.world.Members.Changes(); len(got) > 0 {
			t.Errorf("the list changed by %v", got)
		}
		all := &v1alpha1.EtcdOperatorTaskList{}
		must(t, r.world.List(ctx, all, client.InNamespace(inmemory.Namespace)))
		if len(all.Items) != 1 {
			t.Errorf("there are %d tasks", len(all.Items))
		}
	})
}

// retype changes the StorageClass that the spec asks for.
func (r *run) retype(ctx context.Context, class string) {
	etcd := &v1alpha1.Etcd{}
	must(r.t, r.world.Get(ctx, mainKey, etcd))
	etcd.Spec.StorageClass = &class
	must(r.t, r.world.Update(ctx, etcd))
}

// classes are the StorageClasses of the claims, by ordinal.
func (r *run) classes(ctx context.Context) (classes []string) {
	claims := &corev1.PersistentVolumeClaimList{}
	must(r.t, r.world.List(ctx, claims, client.InNamespace(inmemory.Namespace)))
	for _, c := range claims.Items {
		if strings.HasPrefix(c.Name, inmemory.Name+"-") { // and not the one of the backup store
			classes = append(classes, ptr.Deref(c.Spec.StorageClassName, ""))
		}
	}
	return classes
}

// beginToMove asks for another StorageClass, and has the controller of Etcds prepare that.
func (r *run) beginToMove(ctx context.Context) {
	r.retype(ctx, "fast")
	for range maxRounds {
		set, err := r.world.StatefulSet(ctx)
		must(r.t, err)
		if set != nil && volumes.TemplateClass(set) == "fast" && set.Status.ObservedGeneration > 0 {
			return
		}
		r.operator.Deliver()
		_, err = r.operator.parts.Etcds.Reconcile(ctx, ctrl.Request{NamespacedName: mainKey})
		must(r.t, err)
		r.step(ctx)
	}
	r.t.Fatal("the claim template does not follow")
}

// moving is a cluster of so many members whose volumes are of the class slow, and move.
func moving(t *testing.T, n int32, do func(ctx context.Context, r *run)) {
	changing(t, n, func(ctx context.Context, r *run) {
		r.scenario.moves = true
		r.retype(ctx, "slow")
		r.settled(ctx, n)
		r.moved(ctx, n, "slow")
		do(ctx, r)
	})
}

// moved waits until the volumes of so many members, and no others, are of a class, and the Etcd says so.
func (r *run) moved(ctx context.Context, n int32, class string) {
	r.t.Helper()
	r.until(ctx, "the volumes are "+class, func() bool {
		etcd := &v1alpha1.Etcd{}
		must(r.t, r.world.Get(ctx, mainKey, etcd))
		return slices.Equal(r.classes(ctx), slices.Repeat([]string{class}, int(n))) && etcd.Status.ObservedGeneration == etcd.Generation && etcd.Status.Conditions.Find(v1alpha1.ConditionVolumesMoved) == nil
	})
	r.settled(ctx, n)
}

// Another StorageClass: each member gets another volume while a further one stands in, the leader last. The further one leaves with its
// claim, also where claims are kept.
func TestVolumesMove(t *testing.T) {
	for n, want := range map[int32][]string{
		1: {"add main-1", "promote main-1", "remove main-0", "add main-0", "promote main-0", "remove main-1"},
		3: {
			"add main-3", "promote main-3", "remove main-0", "add main-0", "promote main-0", "remove main-2", "add main-2", "promote main-2",
			"remove main-1", "add main-1", "promote main-1", "remove main-3",
		},
	} {
		t.Run(fmt.Sprintf("%d members", n), func(t *testing.T) {
			moving(t, n, func(ctx context.Context, r *run) {
				r.lead(ctx, min(1, int(n)-1))
				before := len(r.world.Members.Changes())
				r.retype(ctx, "fast")
				r.moved(ctx, n, "fast")
				if got := r.world.Members.Changes()[before:]; !slices.Equal(got, want) {
					t.Errorf("the list changed by %v", got)
				}
			})
		})
	}
}

// A StorageClass that does not allow volumes to grow: each member gets a larger one, by the same changes of the list.
func TestVolumesThatCannotGrowMove(t *testing.T) {
	moving(t, 3, func(ctx context.Context, r *run) {
		must(t, r.world.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.com/none"}))
		r.lead(ctx, 1)
		before := len(r.world.Members.Changes())
		etcd, larger := &v1alpha1.Etcd{}, resource.MustParse("32Gi")
		must(t, r.world.Get(ctx, mainKey, etcd))
		etcd.Spec.StorageCapacity = &larger
		must(t, r.world.Update(ctx, etcd))
		r.until(ctx, "the volumes are larger", func() bool {
			claims := &corev1.PersistentVolumeClaimList{}
			must(t, r.world.List(ctx, claims, client.InNamespace(inmemory.Namespace)))
			return !slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
				return strings.HasPrefix(c.Name, inmemory.Name+"-") && c.Spec.Resources.Requests.Storage().Cmp(larger) != 0
			})
		})
		r.moved(ctx, 3, "slow")
		if changes := r.world.Members.Changes()[before:]; len(changes) != moveChanges {
			t.Errorf("the list changed by %v", changes)
		}
	})
}

// The class is set back half-way: what has moved moves back, and what has not stays.
func TestMoveIsAborted(t *testing.T) {
	moving(t, 3, func(ctx context.Context, r *run) {
		r.retype(ctx, "fast")
		r.until(ctx, "one volume has moved", func() bool {
			_, votes, _ := r.world.Members.Lists(1)
			return votes && slices.Contains(r.classes(ctx)[:3], "fast")
		})
		r.retype(ctx, "slow")
		r.moved(ctx, 3, "slow")
	})
}

// A class that gives no volumes, from the start or once the further member votes: as many serve as before, for as long as that lasts, and
// once the class is set back nothing is left of it.
func TestMoveToABrokenClass(t *testing.T) {
	for name, voters := range map[string]int{"the further member gets none": 3, "one that has left gets none": 4} {
		t.Run(name, func(t *testing.T) {
			moving(t, 3, func(ctx context.Context, r *run) {
				if voters == 3 {
					r.world.Broken = "fast"
				}
				r.retype(ctx, "fast")
				r.until(ctx, "so many serve", func() bool { return r.votersServing() == voters })
				r.world.Broken = "fast"
				r.until(ctx, "a claim gets no volume", func() bool {
					claims := &corev1.PersistentVolumeClaimList{}
					must(t, r.world.List(ctx, claims))
					return slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimPending })
				})
				for range 100 {
					_ = r.round(ctx)
				}
				r.retype(ctx, "slow")
				r.moved(ctx, 3, "slow")
			})
		})
	}
}

// moveChanges and surgeChanges are how many changes of the member list the move of three volumes makes, and a surge.
const moveChanges, surgeChanges = 12, 6

// afterEach runs a test once for each change of the member list, after so many of them; without -crash-all, after some of them.
func afterEach(t *testing.T, changes int, test func(t *testing.T, n int)) {
	for n := range changes + 1 {
		if !*all && n%3 > 0 {
			continue
		}
		t.Run(fmt.Sprintf("after %d changes", n), func(t *testing.T) {
			t.Parallel()
			test(t, n)
		})
	}
}

// interrupted has something happen to a cluster of three while its volumes move, after so many changes of the member list. Fewer serve then.
func interrupted(t *testing.T, n int, do func(ctx context.Context, r *run)) {
	moving(t, 3, func(ctx context.Context, r *run) {
		before := len(r.world.Members.Changes())
		r.retype(ctx, "fast")
		r.until(ctx, "the list has changed", func() bool { return len(r.world.Members.Changes())-before >= n })
		r.outage = true
		do(ctx, r)
	})
}

// surging has something happen to a cluster of one member whose pod a restart replaces by way of a second one, after so many changes of the
// member list.
func surging(t *testing.T, n int, do func(ctx context.Context, r *run)) {
	changing(t, 1, func(ctx context.Context, r *run) {
		r.scenario.surges = true
		etcd := &v1alpha1.Etcd{}
		must(t, r.world.Get(ctx, mainKey, etcd))
		etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
		must(t, r.world.Update(ctx, etcd))
		r.settled(ctx, 1)
		rollout := r.task()
		rollout.Name, rollout.Spec.Type, rollout.Spec.Config = "rollout", v1alpha1.QuorumAwareRollout, "restart: true"
		must(t, r.world.Create(ctx, rollout))
		r.until(ctx, "the list has changed", func() bool { return len(r.world.Members.Changes()) >= n })
		r.outage = true
		do(ctx, r)
	})
}

// The quorum is lost at any time of a move, and recovered from a voter that is left: the move goes on, and ends.
func TestQuorumLostDuringAMove(t *testing.T) {
	afterEach(t, moveChanges, func(t *testing.T, n int) {
		interrupted(t, n, func(ctx context.Context, r *run) {
			r.recovers(ctx)
			r.outage = false
			r.moved(ctx, 3, "fast")
		})
	})
}

// One of two voters of a surge fails for good: the cluster is recovered from the other one, and comes back to one member.
func TestQuorumLostDuringASurge(t *testing.T) {
	for _, n := range []int{2, 5} {
		surging(t, n, func(ctx context.Context, r *run) {
			r.recovers(ctx)
			r.outage = false
			r.settled(ctx, 1)
		})
	}
}

// recovers has all voters but the leader fail for good, and a person recover the cluster. The survivor is the only one with data.
func (r *run) recovers(ctx context.Context) {
	r.t.Helper()
	survivor := r.world.Members.Leader()
	r.scenario.lost, r.joins, r.world.Result = true, true, func(j *batchv1.Job) string { return disturb.SurveyedAt(j, survivor) }
	for i, name := range r.world.Members.Names {
		_, votes, _ := r.world.Members.Lists(i)
		r.world.Crashing[name] = votes && i != survivor
	}
	r.until(ctx, "the quorum is lost", func() bool { return r.world.Members.Leader() < 0 })
	recovery := r.task()
	recovery.Spec.Type, recovery.Spec.Config = v1alpha1.QuorumLossRecovery, ""
	must(r.t, r.world.Create(ctx, recovery))
	r.until(ctx, "the cluster is recovered", func() bool { return r.read(ctx).Status.State.IsFinal() })
	if status := r.read(ctx).Status; status.State != v1alpha1.TaskStateSucceeded || status.Recovery.Member != inmemory.PodName(survivor) {
		r.t.Fatalf("the recovery ended as %+v", status)
	}
}

// The cluster hibernates at any time of a move, and wakes up: the move goes on, and ends.
func TestHibernatesDuringAMove(t *testing.T) {
	afterEach(t, moveChanges, func(t *testing.T, n int) {
		interrupted(t, n, func(ctx context.Context, r *run) {
			r.hibernates(ctx, 3)
			r.outage = false
			r.moved(ctx, 3, "fast")
		})
	})
}

// The cluster hibernates at any time of a surge, and wakes up: it comes back to one member.
func TestHibernatesDuringASurge(t *testing.T) {
	afterEach(t, surgeChanges, func(t *testing.T, n int) {
		surging(t, n, func(ctx context.Context, r *run) {
			r.hibernates(ctx, 1)
			r.outage = false
			r.settled(ctx, 1)
		})
	})
}

// hibernates has the cluster stop, and start again with so many members asked for.
func (r *run) hibernates(ctx context.Context, n int32) {
	r.t.Helper()
	r.resize(ctx, 0)
	r.until(ctx, "it hibernates", func() bool {
		pods, err := r.world.Pods(ctx)
		must(r.t, err)
		etcd := &v1alpha1.Etcd{}
		must(r.t, r.world.Get(ctx, mainKey, etcd))
		return len(pods) == 0 && etcd.Status.Conditions.IsTrue(v1alpha1.ConditionHibernated)
	})
	r.resize(ctx, n)
	r.until(ctx, "it has woken up", func() bool { return r.world.Members.Leader() >= 0 && r.votersServing() == r.voters() })
}

func (r *run) voters() (n int) {
	for i := range r.world.Members.Names {
		if _, votes, _ := r.world.Members.Lists(i); votes {
			n++
		}
	}
	return n
}

// An Etcd that is deleted at any time of a move, or of a surge, goes: the member list and the claims stay as they are.
func TestDeletedDuringAMove(t *testing.T) {
	afterEach(t, moveChanges, func(t *testing.T, n int) {
		interrupted(t, n, func(ctx context.Context, r *run) { r.goes(ctx) })
	})
}

func TestDeletedDuringASurge(t *testing.T) {
	afterEach(t, surgeChanges, func(t *testing.T, n int) {
		surging(t, n, func(ctx context.Context, r *run) { r.goes(ctx) })
	})
}

func (r *run) goes(ctx context.Context) {
	r.t.Helper()
	etcd := &v1alpha1.Etcd{}
	must(r.t, r.world.Get(ctx, mainKey, etcd))
	changed, classes := r.world.Members.Changes(), r.classes(ctx)
	must(r.t, r.world.Delete(ctx, etcd))
	r.until(ctx, "the Etcd is gone", func() bool { return r.world.Get(ctx, mainKey, etcd) != nil })
	for range 50 {
		_ = r.round(ctx)
	}
	if got := r.world.Members.Changes(); !slices.Equal(got, changed) {
		r.t.Errorf("the list changed from %v to %v", changed, got)
	}
	if got := r.classes(ctx); !slices.Equal(got, classes) {
		r.t.Errorf("of claims of the classes %v, %v remain", classes, got)
	}
}

// An agent that is too old to report what it reads keeps no newer one away: the second member that was to take over goes, without having
// joined, and the pod of the only one is replaced. From then on another one takes over.
func TestAnOldAgentGetsANewerOne(t *testing.T) {
	changing(t, 1, func(ctx context.Context, r *run) {
		r.world.Reporting = "localhost/agent:new"
		lease, etcd := &coordinationv1.Lease{}, &v1alpha1.Etcd{}
		must(t, r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.PodName(0)}, lease))
		lease.Annotations = nil
		must(t, r.world.Update(ctx, lease))
		must(t, r.world.Get(ctx, mainKey, etcd))
		etcd.Spec.SurgePolicy, etcd.Spec.Backup.Image, etcd.Spec.PriorityClassName = v1alpha1.SurgeSingleMember, &r.world.Reporting, ptr.To("high")
		must(t, r.world.Update(ctx, etcd))
		r.until(ctx, "the spec is applied", func() bool {
			must(t, r.world.Get(ctx, mainKey, etcd))
			return etcd.Status.ObservedGeneration == etcd.Generation
		})
		restart := func(name string) {
			rollout := r.task()
			rollout.Name, rollout.Spec.Type, rollout.Spec.Config = name, v1alpha1.QuorumAwareRollout, "restart: true"
			must(t, r.world.Create(ctx, rollout))
		}
		restart("first")
		r.until(ctx, "a second pod waits", func() bool {
			return r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.PodName(1)}, &corev1.Pod{}) == nil
		})
		r.until(ctx, "the only pod has the newer agent", func() bool { return r.world.Removed()[inmemory.PodName(0)] > 0 })
		r.settled(ctx, 1)
		if changes := r.world.Members.Changes(); len(changes) > 0 {
			t.Errorf("the list changed by %v", changes)
		}
		r.broken = nil
		restart("second")
		r.scenario.surges = true
		r.until(ctx, "a second member has joined", func() bool { return len(r.world.Members.Changes()) > 0 })
		r.settled(ctx, 1)
	})
}

// draining is a cluster of one member with a surge policy, on a node that is being emptied.
func draining(t *testing.T, policy v1alpha1.SurgePolicy, do func(ctx context.Context, r *run)) {
	changing(t, 1, func(ctx context.Context, r *run) {
		r.scenario.surges = true
		etcd := &v1alpha1.Etcd{}
		must(t, r.world.Get(ctx, mainKey, etcd))
		etcd.Spec.SurgePolicy = policy
		must(t, r.world.Update(ctx, etcd))
		r.settled(ctx, 1)
		must(t, r.world.Cordon(ctx, inmemory.Nodes[0], true))
		do(ctx, r)
	})
}

// pod returns the pod of a member.
func (r *run) pod(ctx context.Context, name string) *corev1.Pod {
	p := &corev1.Pod{}
	must(r.t, client.IgnoreNotFound(r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: name}, p)))
	return p
}

// A node is drained: a second member takes over, the first comes back on another node, and the second leaves. It happens once.
func TestDrain(t *testing.T) {
	draining(t, v1alpha1.SurgeSingleMemberAndDrains, func(ctx context.Context, r *run) {
		r.until(ctx, "the member is on another node", func() bool { return r.pod(ctx, "main-0").Spec.NodeName == inmemory.Nodes[1] })
		r.settled(ctx, 1)
		for range 100 {
			_ = r.round(ctx)
		}
		want := []string{"add main-1", "promote main-1", "remove main-0", "add main-0", "promote main-0", "remove main-1"}
		if got := r.world.Members.Changes(); !slices.Equal(got, want) {
			t.Errorf("the list changed by %v", got)
		}
	})
}

// No node takes the second member: the first serves where it is, for as long as that lasts, and nothing is left once its node takes pods again.
func TestDrainWithoutAnotherNode(t *testing.T) {
	draining(t, v1alpha1.SurgeSingleMemberAndDrains, func(ctx context.Context, r *run) {
		must(t, r.world.Cordon(ctx, inmemory.Nodes[1], true))
		r.until(ctx, "a second member is waited for", func() bool { return r.pod(ctx, "main-1").UID != "" })
		for range 100 {
			_ = r.round(ctx)
		}
		must(t, r.world.Cordon(ctx, inmemory.Nodes[0], false))
		r.until(ctx, "the second pod is gone", func() bool { return r.pod(ctx, "main-1").UID == "" && len(r.classes(ctx)) == 1 })
		r.settled(ctx, 1)
		if got := r.world.Members.Changes(); len(got) > 0 || r.world.Removed()["main-0"] > 0 {
			t.Errorf("the list changed by %v, and pods were removed: %v", got, r.world.Removed())
		}
	})
}

// Without the policy, a cordoned node is no reason for anything.
func TestNoSurgeOnADrain(t *testing.T) {
	draining(t, v1alpha1.SurgeSingleMember, func(ctx context.Context, r *run) {
		for range 100 {
			_ = r.round(ctx)
		}
		if got := r.world.Members.Changes(); len(got) > 0 || r.pod(ctx, "main-1").UID != "" {
			t.Errorf("the list changed by %v", got)
		}
	})
}
