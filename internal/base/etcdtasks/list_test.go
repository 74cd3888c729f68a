// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdtasks

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A recreation of an earlier Etcd of the same name does not stop the members of this one.
func TestTasksOfAnEarlierEtcdAreLeftOut(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "new"}}
	mine := v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.RecreateRollout}}
	mine.Namespace, mine.Name, mine.Spec.OwnerEtcdReference.Name = "ns", "mine", "main"
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "main", UID: "new"}}
	foreign := mine.DeepCopy()
	foreign.Name, foreign.OwnerReferences[0].UID = "foreign", "old"
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&mine, foreign).WithIndex(&v1alpha1.EtcdOperatorTask{}, "spec.ownerEtcdReference.name",
		func(o client.Object) []string {
			return []string{o.(*v1alpha1.EtcdOperatorTask).Spec.OwnerEtcdReference.Name}
		}).Build()
	tasks, err := List(t.Context(), reader, etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tasks).To(HaveLen(1))
	g.Expect(tasks[0].Name).To(Equal("mine"))
}

// Errors say what was tried.
func TestErrors(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Index(t.Context(), broken{})).To(MatchError("indexing tasks by their Etcd: no"))
	_, err := List(t.Context(), broken{}, &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})
	g.Expect(err).To(MatchError("listing the tasks of Etcd ns/main: no"))
}

// broken is an indexer and reader that fails.
type broken struct{ client.Reader }

func (broken) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errors.New("no")
}

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no")
}

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no")
}
