// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// surveyed is a Surveyor of an Etcd with one member, before an API server that can refuse.
type surveyed struct {
	Surveyor
	Order
	*WithT
	refuse func(verb string, o client.Object) error
	ctx    context.Context
}

var errRefused = errors.New("refused")

func newSurveyed(t *testing.T, objects ...client.Object) *surveyed {
	t.Helper()
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	s := &surveyed{WithT: NewWithT(t), ctx: t.Context(), Order: Order{Etcd: etcd, Owner: job.OfEtcd(etcd), Members: 1, Round: "3", Image: "agent", Timeout: time.Minute}}
	asked := func(verb string, o client.Object) error {
		if s.refuse == nil {
			return nil
		}
		return s.refuse(verb, o)
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithStatusSubresource(&batchv1.Job{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := asked("get", o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if err := asked("list", nil); err != nil {
				return err
			}
			return c.List(ctx, l, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := asked("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := asked("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	s.Surveyor = Surveyor{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(time.Time{})}
	return s
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m-m-0", UID: "claim", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "m"},
	}}
}

func (s *surveyed) only() Volume {
	volumes, err := s.Look(s.ctx, s.Order)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(volumes).To(HaveLen(1))
	return volumes[0]
}

func (s *surveyed) jobs() []batchv1.Job {
	all := &batchv1.JobList{}
	s.Expect(s.Client.List(s.ctx, all)).To(Succeed())
	return all.Items
}

// From a claim to what is on it, and from there to another claim of its name.
func TestSurveyOfAVolume(t *testing.T) {
	s := newSurveyed(t, claim())
	unseen := s.only()
	s.Expect(unseen).To(And(HaveField("Member", "m-0"), HaveField("Claim", "m-m-0"), HaveField("UID", BeEquivalentTo("claim")), HaveField("State", Unseen)))
	s.Expect(s.Go(s.ctx, s.Order, []Volume{unseen})).To(Succeed())
	s.Expect(s.Go(s.ctx, s.Order, []Volume{unseen})).To(Succeed(), "it exists by now")
	s.Expect(s.jobs()).To(HaveLen(1))
	made := s.jobs()[0]
	s.Expect(s.Jobs()).To(And(HaveLen(MaxMembers), HaveEach(HaveField("Namespace", "ns")), ContainElement(HaveField("Name", made.Name))))
	s.Expect(made.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationJobSubject, "3/claim"))
	s.Expect(made.Spec.Template.Spec.Containers[0].Image).To(Equal("agent"))
	s.Expect(s.only()).To(And(HaveField("State", Looking), HaveField("UID", BeEquivalentTo("claim"))))

	made.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	s.Expect(s.Client.Status().Update(s.ctx, &made)).To(Succeed())
	s.ended(made, "no JSON")
	s.Expect(s.only()).To(And(HaveField("State", Unread), HaveField("Message", ContainSubstring("Job %s left no readable result", made.Name))))

	s.Round = "4"
	again := s.only()
	s.Expect(again).To(And(HaveField("State", Abandoned), HaveField("Claim", "m-m-0"), HaveField("Message", ContainSubstring("is being replaced by another"))), "members ran in between")
	s.Expect(s.Go(s.ctx, s.Order, []Volume{again})).To(Succeed())
	s.Expect(s.jobs()).To(BeEmpty())
	s.Expect(s.only().State).To(Equal(Unseen))
}

// A pod that has ended may be deleted, by a person or with its node. What it said is on the volume still.
func TestResultThatIsDeletedIsReadAgain(t *testing.T) {
	s := newSurveyed(t, claim())
	s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
	made := s.jobs()[0]
	made.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	s.Expect(s.Client.Status().Update(s.ctx, &made)).To(Succeed())
	gone := s.only()
	s.Expect(gone).To(And(HaveField("State", Abandoned), HaveField("Message", ContainSubstring("its pod was deleted with the result"))))
	s.Expect(s.Go(s.ctx, s.Order, []Volume{gone})).To(Succeed())
	s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
	s.Expect(s.jobs()).To(HaveLen(1))
	s.Expect(s.only().State).To(Equal(Looking), "another Job surveys it")
}

// ended makes a pod of a Job that has succeeded, with its last words.
func (s *surveyed) ended(j batchv1.Job, says string) {
	s.Expect(s.Client.Create(s.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", Labels: map[string]string{batchv1.JobNameLabel: j.Name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: j.UID, Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: says}}}}},
	})).To(Succeed())
}

func TestSurveysAreRemoved(t *testing.T) {
	s := newSurveyed(t, claim())
	s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
	s.refuse = func(verb string, _ client.Object) error {
		if verb == "delete" {
			return errRefused
		}
		return nil
	}
	s.Expect(s.Remove(s.ctx, s.Order)).To(MatchError(errRefused))
	s.Expect(s.Go(s.ctx, s.Order, []Volume{{State: Abandoned}})).To(MatchError(errRefused))
	s.refuse = nil
	s.Expect(s.Remove(s.ctx, s.Order)).To(Succeed())
	s.Expect(s.jobs()).To(BeEmpty())
}

// A claim that is being deleted is not waited for; its Job is given up.
func TestClaimThatIsBeingDeleted(t *testing.T) {
	leaving := claim()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Now()}, []string{"kubernetes.io/pvc-protection"}
	s := newSurveyed(t, leaving)
	s.Expect(s.only()).To(Equal(Volume{Member: "m-0", Claim: "m-m-0", State: Gone}))
	s.Expect(s.Go(s.ctx, s.Order, []Volume{{Member: "m-0", Claim: "m-m-0", UID: "claim", State: Unseen}})).To(Succeed())
	s.Expect(s.only()).To(And(HaveField("State", Abandoned), HaveField("Message", ContainSubstring("is being deleted"))))
}

func TestNoClaim(t *testing.T) {
	s := newSurveyed(t)
	s.Expect(s.only()).To(Equal(Volume{Member: "m-0", Claim: "m-m-0", State: Gone}))
}

// Without a round, the subject is the claim.
func TestSubject(t *testing.T) {
	s := newSurveyed(t)
	s.Expect(s.subject(Volume{UID: "u"})).To(Equal("3/u"))
	s.Round = ""
	s.Expect(s.subject(Volume{UID: "u"})).To(Equal("u"))
}

// The image of the Etcd counts before that of the operator.
func TestImage(t *testing.T) {
	s := newSurveyed(t, claim())
	s.Etcd.Spec.Backup = &v1alpha1.BackupSpec{Image: ptr.To("its-own")}
	s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
	s.Expect(s.jobs()[0].Spec.Template.Spec.Containers[0].Image).To(Equal("its-own"))
}

// What cannot be read or written is no result.
func TestErrorsOfASurvey(t *testing.T) {
	for name, refused := range map[string]func(verb string, o client.Object) bool{
		"the claim": func(verb string, o client.Object) bool {
			_, ok := o.(*corev1.PersistentVolumeClaim)
			return ok && verb == "get"
		},
		"the Job":  func(verb string, o client.Object) bool { _, ok := o.(*batchv1.Job); return ok && verb == "get" },
		"the pods": func(verb string, _ client.Object) bool { return verb == "list" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurveyed(t, claim())
			s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
			s.refuse = func(verb string, o client.Object) error {
				if refused(verb, o) {
					return errRefused
				}
				return nil
			}
			_, err := s.Look(s.ctx, s.Order)
			s.Expect(err).To(MatchError(errRefused))
		})
	}
	s := newSurveyed(t, claim())
	unseen := s.only()
	s.refuse = func(verb string, _ client.Object) error {
		if verb == "create" {
			return errRefused
		}
		return nil
	}
	s.Expect(s.Go(s.ctx, s.Order, []Volume{unseen})).To(MatchError(errRefused))
}

// A member may have joined while no operator watched, so volumes beyond the known members are surveyed too. Those of others are not.
func TestVolumesBeyondTheKnownMembers(t *testing.T) {
	of := func(ordinal string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := claim()
		c.Name, c.UID = "m-m-"+ordinal, types.UID("claim "+ordinal)
		change(c)
		return c
	}
	own, foreign := func(*corev1.PersistentVolumeClaim) {}, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }
	for name, c := range map[string]struct {
		claims []client.Object
		want   []State
	}{
		"none":                   {nil, []State{Unseen}},
		"the next one":           {[]client.Object{of("1", own)}, []State{Unseen, Unseen}},
		"the last one":           {[]client.Object{of("4", own)}, []State{Unseen, Gone, Gone, Gone, Unseen}},
		"the one that stands in": {[]client.Object{of("5", own)}, []State{Unseen, Gone, Gone, Gone, Gone, Unseen}},
		"more than there may be": {[]client.Object{of("6", own)}, []State{Unseen}},
		"foreign":                {[]client.Object{of("1", foreign), of("4", foreign)}, []State{Unseen}},
		"foreign, and then one":  {[]client.Object{of("1", foreign), of("2", own)}, []State{Unseen, Foreign, Unseen}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurveyed(t, append(c.claims, claim())...)
			s.Expect(s.only().State).To(Equal(Unseen), "they are not ordered")
			s.Beyond = true
			volumes, err := s.Look(s.ctx, s.Order)
			s.Expect(err).NotTo(HaveOccurred())
			var states []State
			for i, v := range volumes {
				states = append(states, v.State)
				s.Expect(v.Ordinal).To(BeEquivalentTo(i))
			}
			s.Expect(states).To(Equal(c.want))
			s.Expect(s.Go(s.ctx, s.Order, volumes)).To(Succeed())
			volumes, err = s.Look(s.ctx, s.Order)
			s.Expect(err).NotTo(HaveOccurred())
			_, act := Pending(volumes)
			s.Expect(act).To(BeFalse(), "each has its own Job")
		})
	}
}

// A volume that knows six voters says of six volumes, one more than the API allows, although one member is known.
func TestVotersBeyondTheKnownMembers(t *testing.T) {
	sixth := claim()
	sixth.Name, sixth.UID = "m-m-5", "claim 5"
	s := newSurveyed(t, claim(), sixth)
	s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
	made := s.jobs()[0]
	made.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	s.Expect(s.Client.Status().Update(s.ctx, &made)).To(Succeed())
	s.ended(made, `{"state":"Present","voters":["0","1","2","3","4","5"]}`)
	volumes, err := s.Look(s.ctx, s.Order)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(volumes).To(HaveLen(6))
	s.Expect(volumes[5].State).To(Equal(Unseen))
}

// What a volume holds is its owner's word: a survey of one costs no request for each of a thousand voters.
func TestTooManyVoters(t *testing.T) {
	for voters, want := range map[int]State{maxVoters: Seen, maxVoters + 1: Unread, 1300: Unread} {
		t.Run(fmt.Sprint(voters), func(t *testing.T) {
			s := newSurveyed(t, claim())
			s.Expect(s.Go(s.ctx, s.Order, []Volume{s.only()})).To(Succeed())
			made := s.jobs()[0]
			made.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			s.Expect(s.Client.Status().Update(s.ctx, &made)).To(Succeed())
			s.ended(made, `{"state":"Present","clusterID":"1","voters":[`+strings.Repeat(`"",`, voters-1)+`""]}`)
			asked := 0
			s.refuse = func(verb string, o client.Object) error {
				if _, ok := o.(*corev1.PersistentVolumeClaim); ok && verb == "get" {
					asked++
				}
				return nil
			}
			volumes, err := s.Look(s.ctx, s.Order)
			s.Expect(err).NotTo(HaveOccurred())
			s.Expect(volumes[0].State).To(Equal(want), volumes[0].Message)
			s.Expect(asked).To(BeNumerically("<=", maxVoters))
			if want == Unread {
				s.Expect(asked).To(Equal(1))
				s.Expect(volumes[0].Message).To(ContainSubstring("names %d voters, more than %d", voters, maxVoters))
			}
		})
	}
}
