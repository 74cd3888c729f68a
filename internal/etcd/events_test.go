// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
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

// Members that start with data that was there before their Etcd do not do so silently.
func TestEventOfInheritedData(t *testing.T) {
	held := conditions.False(v1alpha1.ConditionDataVolumesReady, v1alpha1.ReasonSurveyingVolumes, "No member has been started yet: claims main-main-0 hold data of cluster cafe.")
	ready := conditions.True(v1alpha1.ConditionDataVolumesReady, v1alpha1.ReasonDataVolumesReady, "All.")
	kept := conditions.False(v1alpha1.ConditionDataVolumesReady, v1alpha1.ReasonVolumeMissing, "One.")
	for name, c := range map[string]struct {
		before, after string
		condition     metav1.Condition
		want          bool
	}{
		"found":           {"", "cafe", held, true},
		"recorded before": {"cafe", "cafe", held, false},
		"not recorded":    {"", "", held, false},
		"begun":           {"", "cafe", ready, false},
		"begun by two":    {"", "cafe", kept, false},
	} {
		recorder := events.NewFakeRecorder(1)
		etcd := &v1alpha1.Etcd{Status: v1alpha1.EtcdStatus{ClusterID: c.after}}
		etcd.Status.Conditions.Set(c.condition)
		(&statusWriter{recorder: recorder}).report(etcd, &v1alpha1.EtcdStatus{ClusterID: c.before})
		g := NewWithT(t)
		if c.want {
			g.Expect(recorder.Events).To(Receive(HaveSuffix(held.Message)), name)
		} else {
			g.Expect(recorder.Events).To(BeEmpty(), name)
		}
	}
}

// What changes in TLS, in a hibernation, or in leaving a source cluster is one event; what is broken is another one for each of its causes.
func TestEventsOfConditions(t *testing.T) {
	c := func(conditionType, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: conditionType, Reason: reason, Message: message}
	}
	const tlsReady, hibernated, source = v1alpha1.ConditionTLSReady, v1alpha1.ConditionHibernated, v1alpha1.ConditionBootstrappedWithExistingCluster
	record := &v1alpha1.Hibernation{}
	for name, tc := range map[string]struct {
		before, after             *metav1.Condition
		recordBefore, recordAfter *v1alpha1.Hibernation
		want                      string
	}{
		"nothing":                       {},
		"TLS moves":                     {nil, c(tlsReady, v1alpha1.ReasonPeerTLSRollout, "1 of 3."), nil, nil, "Normal PeerTLSRollout 1 of 3."},
		"TLS moves on":                  {c(tlsReady, v1alpha1.ReasonPeerTLSRollout, "1 of 3."), c(tlsReady, v1alpha1.ReasonPeerTLSRollout, "2 of 3."), nil, nil, ""},
		"TLS is in use":                 {c(tlsReady, v1alpha1.ReasonPeerTLSRollout, "1 of 3."), c(tlsReady, v1alpha1.ReasonTLSInUse, "All."), nil, nil, "Normal TLSInUse All."},
		"a Secret is broken":            {c(tlsReady, v1alpha1.ReasonTLSInUse, "All."), c(tlsReady, v1alpha1.ReasonSecretInvalid, "No key."), nil, nil, "Warning SecretInvalid No key."},
		"it stays broken":               {c(tlsReady, v1alpha1.ReasonSecretInvalid, "No key."), c(tlsReady, v1alpha1.ReasonSecretInvalid, "No key."), nil, nil, ""},
		"another Secret is broken":      {c(tlsReady, v1alpha1.ReasonSecretInvalid, "No key."), c(tlsReady, v1alpha1.ReasonSecretInvalid, "No CA."), nil, nil, "Warning SecretInvalid No CA."},
		"certificates are not renewed":  {nil, c(tlsReady, v1alpha1.ReasonCertificatesNotRenewed, "No right."), nil, nil, "Warning CertificatesNotRenewed No right."},
		"TLS is no longer asked for":    {c(tlsReady, v1alpha1.ReasonTLSInUse, "All."), nil, nil, nil, ""},
		"volumes are given up":          {nil, c(hibernated, v1alpha1.ReasonHibernating, "Deletes."), nil, record, "Normal Hibernating Deletes."},
		"volumes were given up":         {nil, c(hibernated, v1alpha1.ReasonHibernating, "Deletes."), record, record, ""},
		"no final snapshot":             {nil, c(hibernated, v1alpha1.ReasonNoFinalSnapshot, "Keeps."), nil, nil, "Warning NoFinalSnapshot Keeps."},
		"no final snapshot any more":    {c(hibernated, v1alpha1.ReasonHibernating, "Waits."), c(hibernated, v1alpha1.ReasonNoFinalSnapshot, "Keeps."), nil, nil, "Warning NoFinalSnapshot Keeps."},
		"still no final snapshot":       {c(hibernated, v1alpha1.ReasonNoFinalSnapshot, "Keeps."), c(hibernated, v1alpha1.ReasonNoFinalSnapshot, "Keeps."), nil, nil, ""},
		"it hibernates with volumes":    {nil, c(hibernated, v1alpha1.ReasonHibernating, "Stops."), nil, nil, ""},
		"it leaves its source":          {nil, c(source, v1alpha1.ReasonLeavingSource, "Kept."), nil, nil, "Warning LeavingSource Kept."},
		"it begins to leave its source": {c(source, "Other", ""), c(source, v1alpha1.ReasonLeavingSource, "Kept."), nil, nil, "Warning LeavingSource Kept."},
		"it is still leaving":           {c(source, v1alpha1.ReasonLeavingSource, "Kept."), c(source, v1alpha1.ReasonLeavingSource, "Kept."), nil, nil, ""},
		"it joins":                      {nil, c(source, "Other", "Joins."), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			recorder := events.NewFakeRecorder(2)
			etcd, earlier := &v1alpha1.Etcd{}, &v1alpha1.EtcdStatus{Hibernation: tc.recordBefore}
			etcd.Status.Hibernation = tc.recordAfter
			if tc.before != nil {
				earlier.Conditions.Set(*tc.before)
			}
			if tc.after != nil {
				etcd.Status.Conditions.Set(*tc.after)
			}
			(&statusWriter{recorder: recorder}).report(etcd, earlier)
			if tc.want != "" {
				g.Expect(recorder.Events).To(Receive(Equal(tc.want)))
			}
			g.Expect(recorder.Events).To(BeEmpty())
		})
	}
}

// Whatever was done to the Secrets of managed TLS is an event.
func TestEventsOfManagedTLS(t *testing.T) {
	g := NewWithT(t)
	recorder := events.NewFakeRecorder(3)
	w := &statusWriter{recorder: recorder}
	w.reportManagedTLS(&v1alpha1.Etcd{}, []managedtls.Event{{Reason: "Issued", Note: "a"}, {Reason: "Renewed", Note: "b"}})
	g.Expect(recorder.Events).To(Receive(Equal("Normal Issued a")))
	g.Expect(recorder.Events).To(Receive(Equal("Normal Renewed b")))
	g.Expect(recorder.Events).To(BeEmpty())
}

// A note just short enough is whole.
func TestLongestNote(t *testing.T) {
	message := strings.Repeat("a", maxNote)
	g := NewWithT(t)
	g.Expect(note(&metav1.Condition{Message: message})).To(Equal(message))
	g.Expect(len(note(&metav1.Condition{Type: "Ready", Message: message + "a"}))).To(BeNumerically("~", maxNote, 7), "there is little room left")
}
