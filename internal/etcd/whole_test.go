// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// A new Etcd gets its objects, its members serve, and the status says so. Then nothing is written any more, and a healthy cluster is looked
// at seldom and after all others.
func TestWholeReconcile(t *testing.T) {
	s := sceneOf(t, func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationOperation: v1alpha1.OperationReconcile, "other": "stays"}
	})
	s.settle()
	e := s.etcd()
	s.Expect(e.Status.Ready).To(HaveValue(BeTrue()))
	s.Expect(e.Status.ClusterID).NotTo(BeEmpty())
	s.Expect(e.Status.ObservedGeneration).To(Equal(e.Generation))
	s.Expect(e.Status.LastErrors).To(BeEmpty())
	s.Expect(e.Annotations).To(Equal(map[string]string{"other": "stays"}), "the operation is done")
	s.Expect(s.set().Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	s.Expect(s.set().Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	s.Expect(s.written()).To(ContainElements("create StatefulSet", "create ConfigMap", "create Service", "create ServiceAccount", "create Role", "create RoleBinding", "create Lease", "create PodDisruptionBudget"))
	result := s.settle()
	s.Expect(result).To(Equal(ctrl.Result{RequeueAfter: pollHealthy, Priority: ptr.To(handler.LowPriority)}))
	s.Expect(s.written()).To(BeEmpty())
}

// The error of each request comes back, whichever fails, and the next reconciles do what was left.
func TestEachRequestFailsOnce(t *testing.T) {
	settled := sceneOf(t, nil)
	settled.settle()
	for name, begin := range map[string]func(n int) *scene{
		"the first reconcile": func(int) *scene { return sceneOf(t, nil) },
		"the spec changes": func(n int) *scene {
			settled.change(func(e *v1alpha1.Etcd) {
				e.Spec.Labels = map[string]string{"a": fmt.Sprint(n)}
				metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile)
			})
			return settled
		},
		"nothing is known yet of a settled one": func(int) *scene {
			settled.reconciler.parts = settled.reconciler.build()
			return settled
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s *scene
			for n := 1; ; n++ {
				s = begin(n)
				s.requests, s.failsAt = 0, n
				_, err := s.once()
				s.failsAt = 0
				if s.requests < n {
					break
				}
				s.Expect(err).To(MatchError(errBroken), "request %d", n)
				_, err = s.once()
				s.Expect(err).NotTo(HaveOccurred(), "request %d", n)
			}
			s.settle()
			s.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
			s.Expect(s.etcd().Status.ObservedGeneration).To(Equal(s.etcd().Generation))
			s.Expect(s.etcd().Status.LastErrors).To(BeEmpty())
		})
	}
}

// A failure that lasts is in the status, and leaves it once it is over.
func TestFailureThatLasts(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	broken := &corev1.Service{}
	key := client.ObjectKey{Namespace: mainKey.Namespace, Name: s.etcd().PeerServiceName()}
	s.Expect(s.world.Get(t.Context(), key, broken)).To(Succeed())
	broken.OwnerReferences = nil
	s.Expect(s.world.Update(t.Context(), broken)).To(Succeed())
	result := s.settle()
	s.Expect(s.condition(v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionFalse))
	s.Expect(s.etcd().Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
	s.Expect(result.RequeueAfter).To(Equal(apply.RecheckForeign))
	s.Expect(s.recorder.Events).To(Receive(HavePrefix("Warning NoController")))
	s.Expect(s.world.Delete(t.Context(), broken)).To(Succeed())
	s.Expect(s.settle().RequeueAfter).To(Equal(pollHealthy))
	s.Expect(s.etcd().Status.LastErrors).To(BeEmpty())
	s.Expect(s.world.Get(t.Context(), key, broken)).To(Succeed(), "it is created again")
}

// An Etcd that the operator's configuration refuses gets no members, and those that it has are left as they are.
func TestRefusedEtcd(t *testing.T) {
	refused := errors.New("this class is not allowed")
	s := sceneOf(t, nil)
	s.reconciler.Allowed = func(*v1alpha1.Etcd) error { return refused }
	s.settle()
	s.Expect(s.set()).To(BeNil())
	s.Expect(s.etcd().Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrNotAllowed)))
	refused = nil
	s.settle()
	s.Expect(s.etcd().Status.Ready).To(HaveValue(BeTrue()))
	refused = errors.New("it no longer is")
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} })
	before := s.set()
	s.settle()
	s.Expect(s.set().Spec).To(Equal(before.Spec))
	s.Expect(s.etcd().Status.ObservedGeneration).To(BeNumerically("<", s.etcd().Generation))
	s.Expect(s.etcd().Status.Ready).To(HaveValue(BeTrue()), "its members are still observed")
}

// While the spec is suspended, or etcd-druid writes the objects, nothing is applied.
func TestNothingIsApplied(t *testing.T) {
	for name, stop := range map[string]func(*scene){
		"suspended": func(s *scene) {
			s.change(func(e *v1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
			})
		},
		"frozen": func(s *scene) {
			c := conditions.False(v1alpha1.ConditionAdopted, v1alpha1.ReasonConversionRefused, "It waits.")
			s.adoption = state.Adoption{Condition: &c, Frozen: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sceneOf(t, nil)
			stop(s)
			s.settle()
			s.Expect(s.set()).To(BeNil())
			s = sceneOf(t, nil)
			s.settle()
			stop(s)
			s.change(func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} })
			s.settle()
			s.Expect(s.set().Spec.Template.Labels).NotTo(HaveKey("a"))
			s.Expect(s.etcd().Status.Ready).To(HaveValue(BeTrue()))
		})
	}
}

// While another operator is back, no object is written, and the status says which Etcd is in the way.
func TestContestedAdoption(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	s.adoption = state.Adoption{Contested: &ownership.Foreign{Kind: "Etcd", Name: "ns/main", Reason: v1alpha1.ReasonNoController, Whose: "is etcd-druid's again", Remedy: "stop one of the two"}}
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} })
	s.writes = nil
	result := s.settle()
	s.Expect(s.written()).To(ConsistOf("patch status Etcd"))
	s.Expect(s.etcd().Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
	s.Expect(result.RequeueAfter).To(Equal(apply.RecheckForeign))
}

// What was asked of an adoption and is refused may be granted without an event.
func TestRefusedAdoptionIsRetried(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	s.adoption.Refused = true
	s.Expect(s.settle().RequeueAfter).To(Equal(apply.RecheckForeign))
}

// A cluster that a recreation stops is held at zero, its spec waits, and its members start again once the task lets go.
func TestHeldAtZero(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	task := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: mainKey.Namespace, Name: "recreate"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: mainKey.Name}},
	}
	s.Expect(s.world.Create(t.Context(), task)).To(Succeed())
	task.Status = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Rollout: &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion}}
	s.Expect(s.world.Status().Update(t.Context(), task)).To(Succeed())
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"a": "b"} })
	s.settle()
	s.Expect(s.set().Spec.Replicas).To(HaveValue(BeZero()))
	s.Expect(s.set().Spec.Template.Labels).NotTo(HaveKey("a"))
	task.Status.Rollout.Phase = ""
	s.Expect(s.world.Status().Update(t.Context(), task)).To(Succeed())
	s.settle()
	s.Expect(s.set().Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	s.Expect(s.set().Spec.Template.Labels).To(HaveKeyWithValue("a", "b"))
	s.Expect(s.condition(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
}

// An Etcd without replicas is hibernated, and wakes up again.
func TestHibernates(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	s.settle()
	s.Expect(s.set().Spec.Replicas).To(HaveValue(BeZero()))
	s.Expect(s.condition(v1alpha1.ConditionHibernated).Status).To(Equal(metav1.ConditionTrue))
	s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	s.settle()
	s.Expect(s.set().Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	s.Expect(s.etcd().Status.Ready).To(HaveValue(BeTrue()))
}

// What an Etcd leaves in the memory of the operator goes with it, wherever it is.
func TestNothingIsRemembered(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	parts := reflect.ValueOf(s.reconciler.parts).Elem()
	remembered := func(fill bool) (all []string) {
		memories("", parts, func(path string, values reflect.Value) {
			if fill {
				// Not every Etcd leaves something everywhere.
				values = reflect.NewAt(values.Type(), values.Addr().UnsafePointer()).Elem()
				values.Set(reflect.MakeMap(values.Type()))
				values.SetMapIndex(reflect.ValueOf(mainKey), reflect.Zero(values.Type().Elem()))
			}
			if values.Len() > 0 {
				all = append(all, path)
			}
		})
		return all
	}
	s.Expect(len(remembered(true))).To(BeNumerically(">=", 11))
	s.Expect(s.world.Delete(t.Context(), s.etcd())).To(Succeed())
	_, err := s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(remembered(false)).To(BeEmpty())
}

// memories calls a function for everything that is kept for Etcds, with the map by their names.
func memories(path string, v reflect.Value, each func(path string, values reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			memories(path, v.Elem(), each)
		}
	case reflect.Struct:
		if values := v.FieldByName("values"); values.IsValid() && values.Kind() == reflect.Map {
			each(path, values)
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "Access" && f.Name != "Credentials" && f.Name != "clock" && f.Name != "recorder" {
				memories(path+"."+f.Name, v.Field(i), each)
			}
		}
	}
}

// An Etcd that is gone, or deleted and owes nothing to others, is left to the garbage collector.
func TestDeletedEtcd(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	s.change(func(e *v1alpha1.Etcd) { e.Finalizers = []string{"example.com/keep"} })
	s.Expect(s.world.Delete(t.Context(), s.etcd())).To(Succeed())
	s.writes = nil
	result, err := s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(result).To(Equal(ctrl.Result{}))
	s.Expect(s.writes).To(BeEmpty())
}

// An Etcd that is deleted while its members are in the list of a source cluster stays until they have left, and says what it waits for.
func TestDeletedEtcdLeavesItsSource(t *testing.T) {
	joined := func(t *testing.T) *scene {
		s := sceneOf(t, func(e *v1alpha1.Etcd) {
			e.Finalizers = []string{v1alpha1.FinalizerLeaveSource}
			e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "old-0"}}, ClientEndpoints: []string{"http://192.0.2.99:2379"}}
		})
		e := s.etcd()
		e.Status.ClusterID = "cafe"
		s.Expect(s.world.Status().Update(t.Context(), e)).To(Succeed())
		s.Expect(s.world.Delete(t.Context(), e)).To(Succeed())
		return s
	}
	s := joined(t)
	result, err := s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(result.RequeueAfter).To(BeNumerically(">", 0))
	c := s.condition(v1alpha1.ConditionBootstrappedWithExistingCluster)
	s.Expect(c).NotTo(BeNil())
	s.Expect(c.Reason).To(Equal(v1alpha1.ReasonLeavingSource))
	s.Expect(c.LastTransitionTime.Time).To(BeTemporally("==", s.clock.Now()))
	s.Expect(s.recorder.Events).To(Receive(HavePrefix("Warning LeavingSource")))
	for n := 1; ; n++ {
		s := joined(t)
		s.requests, s.failsAt = 0, n
		_, err := s.once()
		if s.requests < n {
			break
		}
		s.Expect(err).To(MatchError(errBroken), "request %d", n)
	}
	// The cache is behind: the Etcd has lost its finalizer.
	s = joined(t)
	s.operator.Deliver()
	s.operator.Hold("Etcd")
	s.change(func(e *v1alpha1.Etcd) { e.Finalizers = []string{"example.com/keep"} })
	result, err = s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(result).To(Equal(ctrl.Result{RequeueAfter: retryConflict}))
}

// An Etcd whose members are listed by a source cluster has the finalizer that has them leave again; not while etcd-druid manages it, nor if
// none has ever joined.
func TestEtcdThatJoinsIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		joined, frozen bool
		want           []string
	}{
		"its members have joined": {joined: true, want: []string{v1alpha1.FinalizerLeaveSource}},
		"etcd-druid manages it":   {joined: true, frozen: true},
		"none was added":          {},
	} {
		s := sceneOf(t, func(e *v1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "old-0"}}, ClientEndpoints: []string{"http://192.0.2.99:2379"}}
		})
		s.adoption.Frozen = c.frozen
		e := s.etcd()
		if e.Status.ClusterID = "cafe"; c.joined {
			e.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: e.Source()}
		}
		s.Expect(s.world.Status().Update(t.Context(), e)).To(Succeed())
		_, err := s.once()
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(s.etcd().Finalizers).To(Equal(c.want), name)
	}
}

// A source that answers is joined only once it may be: until then no member is started and its ID is not recorded, however often the
// operator looks, and whether or not there is a StatefulSet by then.
func TestASourceThatMayNotBeJoined(t *testing.T) {
	for name, replicas := range map[string]int32{"it joins at once": 3, "it gets its replicas later": 0} {
		t.Run(name, func(t *testing.T) {
			source := &etcdfake.Cluster{Names: []string{"old-0"}, Endpoints: []string{"http://192.0.2.99:2379"}, Up: func(int) bool { return true }}
			source.Raise(etcdclient.AlarmNoSpace, 0)
			s := sceneOf(t, func(e *v1alpha1.Etcd) {
				e.Spec.Replicas = replicas
				e.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "old-0"}}, ClientEndpoints: source.Endpoints}
			})
			s.world.Members = source
			s.settle()
			s.change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
			s.settle()
			s.Expect(s.condition(v1alpha1.ConditionDataVolumesReady).Message).To(ContainSubstring("the source cluster has the alarm NOSPACE of old-0"))
			s.Expect(s.set().Spec.Replicas).To(HaveValue(BeZero()))
			s.Expect(s.etcd().Status.ClusterID).To(BeEmpty())
			source.Disarm()
			s.settle()
			s.Expect(s.set().Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
			s.Expect(s.etcd().Status.ClusterID).To(Equal("1"))
		})
	}
}

// What follows the status: an error of it that another operator has reported stays until it has succeeded here, and what has to be seen
// first is looked at again soon.
func TestWhatFollowsTheStatus(t *testing.T) {
	var fails error
	s := sceneOf(t, nil)
	s.settle()
	before := followUps
	defer func() { followUps = before }()
	followUps = []stage{{name: "follows", code: v1alpha1.ErrPeerURLs, run: func(*pass, context.Context) error { return fails }}}
	e := s.etcd()
	e.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrPeerURLs, Description: "of another operator"}}
	s.Expect(s.world.Status().Update(t.Context(), e)).To(Succeed())
	s.reconciler.parts = s.reconciler.build()
	followed := func() bool { return s.reconciler.parts.followed.Of(s.etcd()) }

	fails = state.ErrBehind
	s.Expect(s.once()).To(Equal(ctrl.Result{RequeueAfter: retryConflict, Priority: ptr.To(whenChanged)}))
	s.Expect(s.etcd().Status.LastErrors).To(HaveLen(1))
	s.Expect(followed()).To(BeFalse())
	fails = errBroken
	_, err := s.once()
	s.Expect(err).To(MatchError(errBroken))
	s.Expect(s.etcd().Status.LastErrors).To(HaveLen(1))
	s.Expect(followed()).To(BeFalse())
	fails = nil
	_, err = s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.etcd().Status.LastErrors).To(BeEmpty())
	s.Expect(followed()).To(BeTrue())
	fails = errBroken
	_, err = s.once()
	s.Expect(err).To(MatchError(errBroken))
	s.Expect(followed()).To(BeTrue(), "it has succeeded once")

	// What it finds is in the status at once.
	followUps[0].run = func(p *pass, _ context.Context) error {
		p.session.Obstruct(ownership.Foreign{Kind: "ConfigMap", Name: "ns/main-config", Reason: v1alpha1.ReasonNoController, Whose: "has no controller", Remedy: "delete it"})
		return nil
	}
	_, err = s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.etcd().Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
}

// What a stage after the status waits for is forgotten once it is not reached.
func TestAWaitOfAFollowUpThatIsNotReached(t *testing.T) {
	s := sceneOf(t, nil)
	s.settle()
	first, last := stages, followUps
	defer func() { stages, followUps = first, last }()
	followUps = []stage{failing("follows", state.Awaits("later"), false)}
	waits := func() map[string]failure { return s.reconciler.parts.failures.Of(s.etcd()) }
	_, err := s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(waits()).To(HaveLen(1))
	stages = []stage{failing("read", state.Awaits("another"), false)}
	_, err = s.once()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(waits()).To(And(HaveLen(1), HaveKey(stages[0].waits())))
}

// What has to be seen first is waited for in silence for a minute. Then the status says what, and that the members are not observed, until it is seen.
func TestAWaitThatLastsIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		stage string
		code  v1alpha1.ErrorCode
	}{"before anything is read": {"read", v1alpha1.ErrObserve}, "before the spec is applied": {"spec", v1alpha1.ErrApply}} {
		t.Run(name, func(t *testing.T) {
			s := sceneOf(t, nil)
			s.settle()
			before, waits := stages, true
			defer func() { stages = before }()
			stages = slices.Clone(before)
			i := slices.IndexFunc(stages, func(st stage) bool { return st.name == tc.stage })
			run := stages[i].run
			stages[i].run = func(p *pass, ctx context.Context) error {
				if waits {
					return state.Awaits("the garbage collector is away")
				}
				return run(p, ctx)
			}
			status := s.etcd().Status
			pass := func(after time.Duration) {
				s.clock.SetTime(s.clock.Now().Add(after))
				_, err := s.once()
				s.Expect(err).NotTo(HaveOccurred())
			}
			for range 20 {
				pass(time.Second)
			}
			s.Expect(s.etcd().Status).To(Equal(status))
			waits = false
			pass(time.Second)
			waits = true
			for range 59 {
				pass(time.Second)
			}
			s.Expect(s.etcd().Status.LastErrors).To(BeEmpty(), "what was seen in between begins another wait")
			pass(2 * time.Second)
			s.Expect(s.etcd().Status.LastErrors).To(ConsistOf(And(HaveField("Code", tc.code), HaveField("Description", "the garbage collector is away"))))
			s.Expect(s.condition(v1alpha1.ConditionReady)).To(HaveValue(And(HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", v1alpha1.ReasonNotObserved))))
			s.Expect(s.condition(v1alpha1.ConditionStalled)).NotTo(BeNil())
			waits = false
			s.settle()
			s.Expect(s.etcd().Status.LastErrors).To(BeEmpty())
			s.Expect(s.etcd().Status.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue())
			s.Expect(s.condition(v1alpha1.ConditionStalled)).To(BeNil())
		})
	}
}

// What a pass may do with volumes, and with the StatefulSet.
func TestWhatIsCreated(t *testing.T) {
	g := NewWithT(t)
	suspended := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}}}
	passOf := func(e *v1alpha1.Etcd, change func(*pass)) *pass {
		p := &pass{etcd: e}
		p.found.TLS = &tls.Plan{}
		change(p)
		return p
	}
	g.Expect(passOf(&v1alpha1.Etcd{}, func(*pass) {}).creates()).To(BeTrue())
	g.Expect(passOf(&v1alpha1.Etcd{}, func(p *pass) { p.specFailed = true }).creates()).To(BeFalse())
	g.Expect(passOf(&v1alpha1.Etcd{}, func(p *pass) { p.found.TLS.Problem = errBroken }).creates()).To(BeFalse())
	g.Expect(passOf(&v1alpha1.Etcd{}, func(p *pass) { p.found.Adoption.Frozen = true }).creates()).To(BeFalse())
	g.Expect(passOf(suspended, func(*pass) {}).creates()).To(BeFalse())

	served := &v1alpha1.Etcd{Status: v1alpha1.EtcdStatus{ClusterID: "cafe"}}
	seen := &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{ObservedGeneration: 1}}
	g.Expect(unadopted(served, nil)).To(BeTrue())
	g.Expect(unadopted(served, &appsv1.StatefulSet{})).To(BeTrue())
	g.Expect(unadopted(served, seen)).To(BeFalse())
	g.Expect(unadopted(&v1alpha1.Etcd{}, nil)).To(BeFalse())
}
