// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// foreign is an Etcd with the fields of another CRD: some that this project does not have, and some that have other types here.
const foreign = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata:
  name: etcd-main
  namespace: shoot
  uid: an-uid
  generation: 7
  finalizers: [druid.gardener.cloud/etcd-druid]
  annotations: {druid.gardener.cloud/rollout: manual, gardener.cloud/timestamp: "2026-01-01T00:00:00Z"}
  labels: {role: main}
spec:
  replicas: 3
  memberNamePrefix: src
  selector: {matchLabels: {role: main}}
  labels: [not, a, map]
  runAsRoot: true
  etcd:
    image: druid/etcd-wrapper:v1
    quota: 8Gi
    metrics: {level: extensive}
    etcdDefragTimeout: 8m
    clientUrlTls:
      tlsCASecretRef: {name: ca, dataKey: bundle.crt}
      serverTLSSecretRef: {name: server}
      clientTLSSecretRef: {name: client}
      later: {field: true}
    peerUrlTls: {clientTLSSecretRef: {}}
  backup:
    image: druid/etcd-backup-restore:v1
    port: 8081
    leaderElection: {reelectionPeriod: 11s}
    store: {provider: stackit, container: bucket, prefix: shoot/etcd-main, secretRef: {name: etcd-backup}}
    compression: {enabled: true, policy: gzip}
    fullSnapshotSchedule: 17
    snapshotCompaction: {eventsThreshold: many, resources: {requests: {cpu: 600m}}}
status:
  observedGeneration: none
  clusterID: 7
  lastErrors: none
  conditions:
  - {type: AllMembersReady, status: "False", reason: NotAllMembersReady, message: At least one member is not ready, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: never}
  - {type: BackupReady, status: ConditionCheckError, reason: [no, text], message: 7, lastTransitionTime: yesterday, later: {field: true}}
  - {type: Ready, status: "True", reason: Quorate, message: The majority of ETCD members is ready, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: ClusterIDMismatch, status: 8}
  - {type: [Ready], status: "False"}
  - no condition
  members:
  - {name: etcd-main-0, id: 17, role: Member, status: NotReady}
  - {name: 1}
  - no member
`

func object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(foreign), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// What tasks need of an Etcd is read, whatever else is in it.
func TestEtcdsOfAnotherCRDAreRead(t *testing.T) {
	g := NewWithT(t)
	u := object(t)
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v1alpha1.Etcd{})).NotTo(Succeed(), "the test has something to overcome")
	reader := Reader{fake.NewClientBuilder().WithObjects(u).Build()}
	var etcd v1alpha1.Etcd
	g.Expect(reader.Get(t.Context(), client.ObjectKey{Namespace: "shoot", Name: "etcd-main"}, &etcd)).To(Succeed())
	var list v1alpha1.EtcdList
	g.Expect(reader.List(t.Context(), &list, client.InNamespace("shoot"))).To(Succeed())
	g.Expect(list.Items).To(HaveExactElements(etcd))

	g.Expect(string(etcd.UID)).To(Equal("an-uid"))
	g.Expect(etcd.Generation).To(Equal(int64(7)))
	g.Expect(etcd.Annotations).To(Equal(map[string]string{v1alpha1.AnnotationRollout: v1alpha1.RolloutManual}))
	g.Expect(etcd.Spec.Replicas).To(Equal(int32(3)))
	g.Expect(etcd.MemberName("etcd-main-0")).To(Equal("src-etcd-main-0"))
	g.Expect(etcd.Spec.Etcd.ClientURLTLS.ClientTLSSecretRef.Name).To(Equal("client"))
	g.Expect(*etcd.Spec.Etcd.ClientURLTLS.TLSCASecretRef.DataKey).To(Equal("bundle.crt"))
	g.Expect(etcd.Spec.Etcd.Quota.String()).To(Equal("8Gi"))
	g.Expect(*etcd.Spec.Backup.Port).To(Equal(int32(8081)))
	g.Expect(etcd.Spec.Backup.Store.Prefix).To(Equal("shoot/etcd-main"))
	g.Expect(etcd.Spec.Backup.SnapshotCompaction.Resources.Requests).To(HaveLen(1))
	g.Expect(etcd.Spec.Etcd.Image).To(BeNil(), "an image of etcd-druid is not the agent's")
	g.Expect(etcd.Spec.Backup.Image).To(BeNil(), "an image of etcd-druid is not the agent's")
	g.Expect(etcd.Labels).To(Equal(map[string]string{"role": "main"}))
	at := metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range etcd.Status.Conditions {
		etcd.Status.Conditions[i].LastTransitionTime.Time = etcd.Status.Conditions[i].LastTransitionTime.UTC()
	}
	g.Expect(etcd.Status).To(Equal(v1alpha1.EtcdStatus{
		Conditions: v1alpha1.Conditions{
			{Condition: metav1.Condition{Type: v1alpha1.ConditionAllMembersReady, Status: metav1.ConditionFalse, Reason: "NotAllMembersReady", Message: "At least one member is not ready", LastTransitionTime: at}},
			{Condition: metav1.Condition{Type: v1alpha1.ConditionBackupReady, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.Time{Time: time.Time{}.UTC()}}},
			{Condition: metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQuorate, Message: "The majority of ETCD members is ready", LastTransitionTime: at}},
		},
		Members: []v1alpha1.Member{{Name: "etcd-main-0"}},
	}), "the rest is etcd-druid's alone")
}

// A status that is nothing of what it is to be is as none.
func TestAStatusThatIsNone(t *testing.T) {
	for _, status := range []any{nil, "well", []any{}, map[string]any{"conditions": map[string]any{"type": "map"}, "members": int64(3)}} {
		g := NewWithT(t)
		u := object(t)
		u.Object["status"] = status
		var etcd v1alpha1.Etcd
		g.Expect(decode(u, &etcd)).To(Succeed())
		g.Expect(etcd.Status).To(BeZero())
	}
}

// An Etcd that lacks what tasks need is an error of this Etcd, not an Etcd without TLS.
func TestEtcdThatCannotBeReadIsAnError(t *testing.T) {
	g := NewWithT(t)
	u := object(t)
	g.Expect(unstructured.SetNestedField(u.Object, "https", "spec", "etcd", "clientUrlTls")).To(Succeed())
	reader := Reader{fake.NewClientBuilder().WithObjects(u).Build()}
	g.Expect(reader.Get(t.Context(), client.ObjectKeyFromObject(u), &v1alpha1.Etcd{})).To(MatchError(ContainSubstring("decoding Etcd shoot/etcd-main")))
	g.Expect(reader.List(t.Context(), &v1alpha1.EtcdList{})).To(MatchError(ContainSubstring("decoding Etcd shoot/etcd-main")))
}

// A cache keeps no more of an Etcd than is read.
func TestTrim(t *testing.T) {
	g := NewWithT(t)
	u := object(t)
	trimmed := Trim(u)
	g.Expect(Trim(trimmed)).To(Equal(trimmed))
	var full, kept v1alpha1.Etcd
	g.Expect(decode(u, &full)).To(Succeed())
	g.Expect(decode(trimmed, &kept)).To(Succeed())
	g.Expect(kept).To(Equal(full))
	g.Expect(trimmed.Object["status"]).To(HaveLen(2))
	g.Expect(object(t)).To(Equal(u), "the original is not changed")
}
