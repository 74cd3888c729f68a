// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// creation creates tasks at an API server that has some already.
type creation struct {
	*WithT
	Creator
	t    *testing.T
	etcd *v1alpha1.Etcd
	says chan string
	// lost loses answers of the API server.
	lost bool
}

func newCreation(t *testing.T, exists ...client.Object) *creation {
	scheme := runtime.NewScheme()
	g := NewWithT(t)
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	c := &creation{WithT: g, t: t, etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}, says: make(chan string, 9)}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(exists...).WithIndex(&v1alpha1.EtcdOperatorTask{}, etcdField, func(o client.Object) []string {
		return []string{o.(*v1alpha1.EtcdOperatorTask).Spec.OwnerEtcdReference.Name}
	}).WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, o client.Object, options ...client.CreateOption) error {
		err := to.Create(ctx, o, options...)
		if err == nil && c.lost {
			err = errors.New("the answer was lost")
		}
		return err
	}}).Build()
	c.Creator = Creator{Client: builder, Live: builder, Recorder: &events.FakeRecorder{Events: c.says}}
	return c
}

// rollout is the task to create, or another one of that name.
func rollout(change ...func(*v1alpha1.EtcdOperatorTask)) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}}
	t.Namespace, t.Name = "ns", "main-rollout-1"
	for _, c := range change {
		c(t)
	}
	return t
}

func (c *creation) create() (created bool, name string, err error) {
	task := rollout()
	created, err = c.Create(c.t.Context(), c.etcd, task)
	return created, task.Name, err
}

func (c *creation) tasks() int {
	all := &v1alpha1.EtcdOperatorTaskList{}
	c.Expect(c.Client.List(c.t.Context(), all)).To(Succeed())
	return len(all.Items)
}

// One cause has one task, also if an answer was lost.
func TestCauseHasOneTask(t *testing.T) {
	c := newCreation(t)
	c.lost = true
	_, _, err := c.create()
	c.Expect(err).To(MatchError(ContainSubstring("creating task ns/main-rollout-1: the answer was lost")))
	c.lost = false
	created, _, err := c.create()
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(created).To(BeFalse())
	c.Expect(c.tasks()).To(Equal(1))
	c.Expect(c.says).To(BeEmpty())
}

// A task of that name that is another one stops nothing: it is said, and another name is taken, once.
func TestNameThatIsTaken(t *testing.T) {
	for name, other := range map[string]struct {
		change func(*v1alpha1.EtcdOperatorTask)
		says   string
	}{
		"for another Etcd": {func(t *v1alpha1.EtcdOperatorTask) { t.Spec.OwnerEtcdReference.Name = "other" }, `but it is for Etcd "other": task main-rollout-1-`},
		"of another type":  {func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.OnDemandSnapshot }, `but it is of type "OnDemandSnapshot"`},
		"for an earlier Etcd of the name": {func(t *v1alpha1.EtcdOperatorTask) {
			t.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: "old"}}
		}, "but the task belongs to an earlier Etcd main"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCreation(t, rollout(other.change))
			created, instead, err := c.create()
			c.Expect(err).NotTo(HaveOccurred())
			c.Expect(created).To(BeTrue())
			c.Expect(instead).To(MatchRegexp("^main-rollout-1-[a-z2-7]{10}$"))
			c.Expect(c.says).To(Receive(And(HavePrefix("Warning TaskNameTaken Task main-rollout-1 has the name"), ContainSubstring(other.says))))

			created, _, err = c.create()
			c.Expect(err).NotTo(HaveOccurred())
			c.Expect(created).To(BeFalse(), "it has been created under another name")
			c.Expect(c.tasks()).To(Equal(2))

			again := newCreation(t, rollout(other.change))
			again.lost = true
			_, _, err = again.create()
			again.Expect(err).To(MatchError(ContainSubstring("the answer was lost")))
			again.lost = false
			created, _, err = again.create()
			again.Expect(err).NotTo(HaveOccurred())
			again.Expect(created).To(BeFalse())
			again.Expect(again.tasks()).To(Equal(2))
		})
	}
}

// taken is a task of another type that has a name.
func taken(name, uid string) *v1alpha1.EtcdOperatorTask {
	return rollout(func(t *v1alpha1.EtcdOperatorTask) {
		t.Name, t.UID, t.Spec.Type = name, types.UID(uid), v1alpha1.OnDemandSnapshot
	})
}

// Two operators find the name taken at the same time, before either has created a task: they create one.
func TestTwoOperatorsTakeTheSameName(t *testing.T) {
	c := newCreation(t, taken("main-rollout-1", "other"))
	c.Live = unseen{c.Client}
	for _, first := range []bool{true, false} {
		created, _, err := c.create()
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(created).To(Equal(first))
	}
	c.Expect(c.tasks()).To(Equal(2))
	c.Expect(c.says).To(HaveLen(1))
}

// The name that follows is taken too, by one who reads the UID of his own task: the next ones follow from that, and the last cannot be
// predicted.
func TestNamesThatAreTakenInARow(t *testing.T) {
	names := []string{"main-rollout-1"}
	c := newCreation(t, taken(names[0], "0"))
	for i := range maxTaken - 1 {
		names = append(names, "main-rollout-1-"+suffix(types.UID(fmt.Sprint(i)), i))
		c.Expect(c.Client.Create(t.Context(), taken(names[i+1], fmt.Sprint(i+1)))).To(Succeed())
	}
	created, name, err := c.create()
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(created).To(BeTrue())
	c.Expect(name).To(MatchRegexp("^main-rollout-1-[a-z2-7]{10}$"))
	c.Expect(names).NotTo(ContainElement(name))
	c.Expect(c.says).To(Receive(ContainSubstring("Task main-rollout-1 has the name")))
	c.Expect(suffix("uid", maxTaken-1)).NotTo(Equal(suffix("uid", maxTaken-1)))
}

// unseen is a reader whose lists are empty.
type unseen struct{ client.Reader }

func (unseen) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestIsNamed(t *testing.T) {
	for name, want := range map[string]bool{"a-1": true, "a-1-x": true, "a-10": false, "a": false} {
		task := rollout()
		task.Name = name
		if got := IsNamed(task, "a-1"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What cannot be read is not created again.
func TestTakenNameThatCannotBeRead(t *testing.T) {
	c := newCreation(t, rollout(func(t *v1alpha1.EtcdOperatorTask) { t.Spec.Type = v1alpha1.OnDemandSnapshot }))
	for verb, reader := range map[string]client.Reader{"reading task ns/main-rollout-1": broken{}, "listing the tasks": unlisted{c.Client}} {
		c.Live = reader
		_, _, err := c.create()
		c.Expect(err).To(MatchError(ContainSubstring(verb)))
		c.Expect(c.tasks()).To(Equal(1))
	}
}

// unlisted is a reader that does not list.
type unlisted struct{ client.Reader }

func (unlisted) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no")
}
