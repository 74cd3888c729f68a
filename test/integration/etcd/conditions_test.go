// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Of an Etcd that is well, every condition is True: etcd-druid's end-to-end tests, and others that know no condition by name, ask
// for that. There is one exception with etcd-druid, ClusterIDMismatch, which is not a condition here.
func TestEveryConditionOfAHealthyEtcdIsTrue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, onClass(storageClass(t, true)), clientTLS, peerTLS, func(e *v1alpha1.Etcd) {
		e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", SecretRef: &v1alpha1.SecretReference{Name: "backup"}}}
	})
	for i := range w.Members.Endpoints {
		w.Members.Endpoints[i] = fmt.Sprintf("https://%s:2379", env.PodIP(i))
	}
	w.Members.ListWith("https")
	w.issue()
	w.start()
	w.bind(3)
	w.eventuallyWell()
	full := &coordinationv1.Lease{}
	w.Get(w, w.Etcd.FullSnapshotLeaseName(), full)
	full.Spec.HolderIdentity, full.Spec.RenewTime = ptr.To("1"), ptr.To(metav1.NowMicro())
	w.Expect(testEnv.Client.Update(t.Context(), full)).To(Succeed())

	w.Eventually(func(g Gomega) {
		w.Status(g)
		statuses := map[string]metav1.ConditionStatus{}
		for _, c := range w.Etcd.Status.Conditions {
			statuses[c.Type] = c.Status
		}
		g.Expect(statuses).To(Equal(map[string]metav1.ConditionStatus{
			v1alpha1.ConditionReady: metav1.ConditionTrue, v1alpha1.ConditionAllMembersReady: metav1.ConditionTrue,
			v1alpha1.ConditionAllMembersUpdated: metav1.ConditionTrue, v1alpha1.ConditionDataVolumesReady: metav1.ConditionTrue,
			v1alpha1.ConditionVolumesGrown: metav1.ConditionTrue, v1alpha1.ConditionScaled: metav1.ConditionTrue,
			v1alpha1.ConditionScaleOperationComplete: metav1.ConditionTrue,
			v1alpha1.ConditionObjectsOwned:           metav1.ConditionTrue, v1alpha1.ConditionBackupReady: metav1.ConditionTrue,
			v1alpha1.ConditionTLSReady: metav1.ConditionTrue, v1alpha1.ConditionReconciled: metav1.ConditionTrue,
			v1alpha1.ConditionUpToDate: metav1.ConditionTrue,
		}))
		g.Expect(w.Etcd.Status.Conditions.Find(v1alpha1.ConditionUpToDate).ObservedGeneration).To(Equal(w.Etcd.Generation))
	}).Should(Succeed())
}
