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

// One event reports that a recovery was withdrawn, and none that it has ended, or is recorded.
func TestEventOfAWithdrawnRecovery(t *testing.T) {
	recorded := &v1alpha1.ClusterRecovery{Task: "recover", TaskUID: "uid", PreviousClusterID: "cafe"}
	for name, c := range map[string]struct {
		before, after *v1alpha1.ClusterRecovery
		id            string
		want          bool
	}{
		"withdrawn":    {recorded, nil, "cafe", true},
		"it has ended": {recorded, nil, "beef", false},
		"it stays":     {recorded, recorded, "cafe", false},
		"none":         {nil, nil, "cafe", false},
		"a wake-up":    {&v1alpha1.ClusterRecovery{TaskUID: "uid", PreviousClusterID: "cafe"}, nil, "cafe", false},
	} {
		recorder := events.NewFakeRecorder(1)
		etcd := &v1alpha1.Etcd{Status: v1alpha1.EtcdStatus{ClusterID: c.id, Recovery: c.after}}
		(&statusWriter{recorder: recorder}).report(etcd, &v1alpha1.EtcdStatus{Recovery: c.before})
		g := NewWithT(t)
		if c.want {
			g.Expect(recorder.Events).To(Receive(Equal("Normal RecoveryWithdrawn Withdrew the recovery of task recover, which is deleted: cluster cafe serves, and the new cluster has not begun.")), name)
		} else {
			g.Expect(recorder.Events).To(BeEmpty(), name)
		}
	}
}
