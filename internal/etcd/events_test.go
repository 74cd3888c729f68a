// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

// One event reports that a foreign object blocks the Etcd, and no other follows while one does.
func TestEventOfAForeignObject(t *testing.T) {
	reported := func(before, after *metav1.Condition) string {
		recorder := events.NewFakeRecorder(1)
		etcd, earlier := &v1alpha1.Etcd{}, &v1alpha1.EtcdStatus{}
		if before != nil {
			earlier.Conditions.Set(*before)
		}
		if after != nil {
			etcd.Status.Conditions = nil
			etcd.Status.Conditions.Set(*after)
		}
		(&statusWriter{recorder: recorder}).report(etcd, earlier)
		select {
		case e := <-recorder.Events:
			return e
		default:
			return ""
		}
	}
	g := NewWithT(t)
	yes := conditions.True(v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own.")
	no := conditions.False(v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonNoController, "ServiceAccount ns/e has no controller: delete it.")
	other := conditions.False(v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonClaimNotOwned, "PersistentVolumeClaim ns/e-1 has no labels: adopt it.")
	g.Expect(reported(nil, &yes)).To(BeEmpty())
	g.Expect(reported(nil, &no)).To(And(HavePrefix("Warning NoController"), ContainSubstring("ServiceAccount ns/e has no controller")))
	g.Expect(reported(&yes, &no)).NotTo(BeEmpty())
	g.Expect(reported(&no, &no)).To(BeEmpty())
	g.Expect(reported(&no, &other)).To(BeEmpty())
	g.Expect(reported(&no, &yes)).To(BeEmpty())
}

// A note is truncated to a thousand bytes, between characters.
func TestNote(t *testing.T) {
	g := NewWithT(t)
	noted := func(message string) string {
		return note(&metav1.Condition{Type: v1alpha1.ConditionObjectsOwned, Message: message})
	}
	g.Expect(noted("short.")).To(Equal("short."))
	long := noted(strings.Repeat("ä", 900))
	g.Expect(len(long)).To(BeNumerically("<=", maxNote))
	g.Expect(long).To(HaveSuffix("ä … The condition ObjectsOwned has the rest."))
	g.Expect(strings.ToValidUTF8(long, "?")).To(Equal(long))
}
