//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The snapshots of a single member are encrypted. It starts without the Secret with the identity, takes snapshots, and says that it cannot
// read them; a compaction fails with the reason. With the Secret, a Job compacts them, and the member that has lost its volume restores
// them.
func TestEncryptedBackups(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	identity, recipient := encryptiontest.Identity(t)
	c.begin(1, withStore(2*time.Second), func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.Backup.Encryption = &v1alpha1.EncryptionSpec{
			Recipients: []v1alpha1.Recipient{v1alpha1.Recipient(recipient)}, IdentitySecretRef: &v1alpha1.SecretReference{Name: "identities"},
		}
	})
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionFalse, v1alpha1.ReasonBackupFailed)
	c.Expect(c.etcd(c).Status.Conditions.Find(v1alpha1.ConditionBackupReady).Message).To(ContainSubstring("identitySecretRef does not exist"))
	c.putKeys(1000)
	c.Expect(c.do("full", v1alpha1.OnDemandSnapshot, "type: full")["snapshot"]).To(ContainSubstring(".age"))
	blind := c.task("blind", "")
	blind.Spec.Type = v1alpha1.OnDemandCompaction
	c.create(blind)
	failed := c.untilTask("blind", inState(v1alpha1.TaskStateFailed))
	c.Expect(failed.Status.LastErrors[0].Description).To(ContainSubstring("is encrypted and cannot be read here"))

	c.put("identities", map[string][]byte{"key.txt": []byte(identity + "\n")})
	// The kubelet mounts it within two minutes, and the agent checks with its next snapshot.
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.untilBackedUp(c.revision())
	c.writer.Stop()
	c.backupsAreComplete(c.saved(c))

	claim, pod := c.claim(c, 0), c.pod(c, 0)
	c.Expect(kube.Delete(t.Context(), claim)).To(Succeed())
	c.Expect(kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})).To(Succeed())
	c.Eventually(func(g Gomega) {
		g.Expect(c.claim(g, 0).UID).NotTo(Equal(claim.UID))
		g.Expect(c.status(g, 0).Leader).NotTo(BeZero())
	}).Should(Succeed())
	c.ready()
	c.keysExist(1000)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
}
