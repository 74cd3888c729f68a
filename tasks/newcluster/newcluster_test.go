// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package newcluster

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// A task whose Etcd is gone, or another one now, is cleaned up after without one.
func TestCleanupWithoutAnEtcd(t *testing.T) {
	g := NewWithT(t)
	api := apitest.API()
	v := Volumes{Client: api, Live: api, Clock: &clocktesting.FakePassiveClock{}}
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "task"}}
	g.Expect(v.Cleanup(t.Context(), tasks.Task{Object: task})).To(Succeed())
}
