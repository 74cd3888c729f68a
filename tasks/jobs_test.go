// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// working is a task whose work is a Job.
type working struct {
	*WithT
	t     *testing.T
	api   client.WithWatch
	task  Task
	built error
}

func newWorking(t *testing.T) *working {
	object := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "task"}}
	return &working{WithT: NewWithT(t), t: t, api: apitest.API(object), task: Task{Object: object}}
}

func (w *working) jobs(api client.WithWatch) Jobs {
	return Jobs{Client: api, Live: api, Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
}

func (w *working) build() (*batchv1.Job, error) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: job.Name(w.task.Object), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.task.Object, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOperatorTask))}}}
	j.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent"}}
	return j, w.built
}

func (w *working) key() client.ObjectKey {
	return client.ObjectKey{Namespace: "ns", Name: job.Name(w.task.Object)}
}

// next is the next verdict, after each of the requests failed once. Its step is carried out likewise.
func (w *working) next() Verdict {
	w.t.Helper()
	withCode := func(err error) error {
		if err != nil && coded.Of(err, "") != v1alpha1.ErrJob {
			w.t.Errorf("no code: %v", err)
		}
		return err
	}
	apitest.EachRequestFails(w.t, w.api, func(api client.WithWatch) error {
		_, err := w.jobs(api).Execute(w.t.Context(), w.task, w.build)
		return withCode(err)
	})
	v, err := w.jobs(w.api).Execute(w.t.Context(), w.task, w.build)
	w.Expect(err).NotTo(HaveOccurred())
	if v.Step != nil {
		// Each operator builds the Job for itself.
		step := func() Step {
			built, err := w.build()
			w.Expect(err).NotTo(HaveOccurred())
			return Step{Operation: v.Step.Operation, Detail: built}
		}
		apitest.EachRequestFails(w.t, w.api, func(api client.WithWatch) error {
			return withCode(w.jobs(api).Perform(w.t.Context(), w.task, step()))
		})
		w.Expect(w.jobs(w.api).Perform(w.t.Context(), w.task, step())).To(Succeed())
		w.Expect(w.jobs(w.api).Perform(w.t.Context(), w.task, step())).To(Succeed(), "an earlier operator has created it")
	}
	return v
}

func (w *working) exists() bool {
	err := w.api.Get(w.t.Context(), w.key(), &batchv1.Job{})
	w.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
	return !apierrors.IsNotFound(err)
}

func (w *working) cleanUp() {
	w.t.Helper()
	apitest.EachRequestFails(w.t, w.api, func(api client.WithWatch) error { return w.jobs(api).Cleanup(w.t.Context(), w.task) })
	w.Expect(w.jobs(w.api).Cleanup(w.t.Context(), w.task)).To(Succeed())
}

func TestJobOfATask(t *testing.T) {
	w := newWorking(t)
	v := w.next()
	w.Expect(v.Outcome).To(Equal(Continue))
	w.Expect(v.Reason).To(Equal(v1alpha1.ReasonRunning))
	w.Expect(v.Result).To(Equal(map[string]string{"job": w.key().Name}))
	w.Expect(v.Step.Operation).To(Equal("CreateJob"))
	w.Expect(w.exists()).To(BeTrue())
	apitest.Run(t, w.api, w.key())
	v = w.next()
	w.Expect(v.Outcome).To(Equal(Continue))
	w.Expect(v.RequeueAfter).To(Equal(jobPoll))
	w.Expect(v.LastOperation).To(BeNil())

	apitest.Complete(t, w.api, w.key(), `{"revision":7,"snapshot":"Full","more":{"a":1},"job":"another"}`)
	v = w.next()
	w.Expect(v.Outcome).To(Equal(Done))
	w.Expect(v.Result).To(Equal(map[string]string{"job": w.key().Name, "revision": "7", "snapshot": "Full", "more": `{"a":1}`}))
	w.Expect(v.LastOperation).To(HaveValue(And(HaveField("Name", "CreateJob"), HaveField("State", v1alpha1.OperationStateCompleted), HaveField("Reason", v.Message))))
	w.cleanUp()
	w.Expect(w.exists()).To(BeTrue(), "it stays with its log")
}

// A task that ends stops its Job while that runs, and no other's.
func TestCleanup(t *testing.T) {
	w := newWorking(t)
	w.cleanUp()
	w.next()
	w.cleanUp()
	w.Expect(w.exists()).To(BeFalse())

	foreign, err := w.build()
	w.Expect(err).NotTo(HaveOccurred())
	foreign.OwnerReferences = nil
	w.Expect(w.api.Create(t.Context(), foreign)).To(Succeed())
	w.cleanUp()
	w.Expect(w.exists()).To(BeTrue())
	v := w.next()
	w.Expect(v.Outcome).To(Equal(Fail))
	w.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))
	w.Expect(v.Message).To(ContainSubstring("has no controller"))
}

// A Job that cannot be built fails the task; what could not be read for it does not.
func TestJobThatCannotBeBuilt(t *testing.T) {
	w := newWorking(t)
	w.built = errors.New("no such store")
	v := w.next()
	w.Expect(v).To(Equal(Verdict{Outcome: Fail, Code: v1alpha1.ErrInvalidConfig, Message: "no such store"}))
	w.built = coded.Error(v1alpha1.ErrJob, errors.New("no answer"))
	v, err := w.jobs(w.api).Execute(t.Context(), w.task, w.build)
	w.Expect(err).To(MatchError("no answer"))
	w.Expect(v).To(BeZero())
}

func TestJobThatFails(t *testing.T) {
	w := newWorking(t)
	v := jobVerdict(w.task, job.State{Code: v1alpha1.ErrJobFailed, Message: "no space", Result: []byte(`{"a":"b"}`)}, time.Unix(1, 0))
	w.Expect(v.Outcome).To(Equal(Fail))
	w.Expect(v.Code).To(Equal(v1alpha1.ErrJobFailed))
	w.Expect(v.LastOperation.State).To(Equal(v1alpha1.OperationStateFailed))
	w.Expect(v.Result).NotTo(HaveKey("a"))
	w.Expect(jobVerdict(w.task, job.State{Result: []byte("x")}, time.Unix(1, 0)).Result).To(HaveLen(1))
}

// What a restore must reach is read from the leases of the Etcd.
func TestRecorded(t *testing.T) {
	w := newWorking(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	revision := "7"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-full-snap"}}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &revision, &metav1.MicroTime{Time: time.Unix(1, 0)}
	w.Expect(w.api.Create(t.Context(), lease)).To(Succeed())
	apitest.EachRequestFails(t, w.api, func(api client.WithWatch) error {
		args, err := w.jobs(api).Recorded(t.Context(), etcd)
		w.Expect(coded.Of(err, "") == v1alpha1.ErrJob).To(Equal(err != nil))
		w.Expect(args == nil).To(Equal(err != nil))
		return err
	})
}
