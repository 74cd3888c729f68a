// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

var (
	account = ownership.Foreign{Kind: "ServiceAccount", Name: "ns/e", Reason: v1alpha1.ReasonNoController, Whose: "has no controller", Remedy: "delete it"}
	volume1 = ownership.Foreign{Kind: "PersistentVolumeClaim", Name: "ns/e-1", Reason: v1alpha1.ReasonClaimNotOwned, Whose: "has no labels", Remedy: "adopt it"}
)

func TestObjectsOwned(t *testing.T) {
	type all = []ownership.Foreign
	for name, c := range map[string]struct {
		inTheWay, inUse all
		reason          string
		says            string
	}{
		"all":                      {nil, nil, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own."},
		"one is in the way":        {all{account}, nil, v1alpha1.ReasonNoController, "The operator writes no object of this Etcd until each of them is its own. ServiceAccount ns/e has no controller: delete it."},
		"a member uses a claim":    {nil, all{volume1}, v1alpha1.ReasonClaimNotOwned, "neither grows, records nor deletes them. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
		"both":                     {all{account}, all{volume1}, v1alpha1.ReasonNoController, "delete it. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
		"a claim is in both: once": {all{volume1}, all{volume1}, v1alpha1.ReasonClaimNotOwned, "until each of them is its own. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := objectsOwned(c.inTheWay, c.inUse)
			g.Expect(got.Reason).To(Equal(c.reason))
			g.Expect(got.Status == metav1.ConditionTrue).To(Equal(c.reason == v1alpha1.ReasonObjectsOwned))
			g.Expect(got.Message).To(HaveSuffix(c.says))
		})
	}
}

// What nobody has looked at leaves the condition as it was.
func TestOwnershipIsKnownOnceLookedAt(t *testing.T) {
	g := NewWithT(t)
	_, known := (&pass{}).ownership()
	g.Expect(known).To(BeFalse())
	_, known = (&pass{compared: true}).ownership()
	g.Expect(known).To(BeTrue())
	c, known := (&pass{proof: &apply.Proof{Foreign: []ownership.Foreign{account}}}).ownership()
	g.Expect(known).To(BeTrue())
	g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
}

// An event tells when an object has got in the way, and not again as long as one is.
func TestEventOfAnObjectInTheWay(t *testing.T) {
	told := func(before, after *metav1.Condition) string {
		recorder := events.NewFakeRecorder(1)
		status := func(c *metav1.Condition) *v1alpha1.EtcdStatus {
			s := &v1alpha1.EtcdStatus{}
			if c != nil {
				s.Conditions = []metav1.Condition{*c}
			}
			return s
		}
		(&Reconciler{Recorder: recorder}).tellOfOwnership(&v1alpha1.Etcd{}, status(before), status(after))
		select {
		case e := <-recorder.Events:
			return e
		default:
			return ""
		}
	}
	g := NewWithT(t)
	yes, no := objectsOwned(nil, nil), objectsOwned([]ownership.Foreign{account}, nil)
	other := objectsOwned([]ownership.Foreign{volume1}, nil)
	g.Expect(told(nil, &yes)).To(BeEmpty())
	g.Expect(told(nil, &no)).To(And(HavePrefix("Warning NoController"), ContainSubstring("ServiceAccount ns/e has no controller")))
	g.Expect(told(&yes, &no)).NotTo(BeEmpty())
	g.Expect(told(&no, &no)).To(BeEmpty())
	g.Expect(told(&no, &other)).To(BeEmpty())
	g.Expect(told(&no, &yes)).To(BeEmpty())
}

// An event has room for a thousand bytes, and for whole characters.
func TestNote(t *testing.T) {
	g := NewWithT(t)
	g.Expect(note("short.")).To(Equal("short."))
	long := note(strings.Repeat("ä", 900))
	g.Expect(len(long)).To(BeNumerically("<=", maxNote))
	g.Expect(long).To(HaveSuffix("ä … The condition ObjectsOwned has the rest."))
	g.Expect(strings.ToValidUTF8(long, "?")).To(Equal(long))
}
