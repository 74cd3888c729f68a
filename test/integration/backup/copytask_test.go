// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/copyjob"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A control plane moves: the Job of an EtcdCopyBackupsTask waits for the final snapshot of the old cluster, and the new one restores
// all that the old one had.
func TestACopyWaitsForTheFinalSnapshot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	bucketServer := startS3(t)
	source := bucketServer.store()
	e := startEtcd(t, t.TempDir()+"/data")
	put(g, e, "k", 20)
	r := run(t, e, source, options())
	r.begin(g)

	// What the agent is told, in place of its container's folders.
	task := &v1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "moved", UID: "1"}}
	secretRef := &v1alpha1.SecretReference{Name: "s"}
	built, err := copyjob.Copy{
		Source: v1alpha1.StoreSpec{Provider: "openstack", Container: bucket, Prefix: prefix, SecretRef: secretRef},
		Target: v1alpha1.StoreSpec{Provider: "alicloud", Container: bucket, Prefix: "shoot/moved", SecretRef: secretRef},
		Wait:   machine.Patience(),
	}.Build(job.Spec{Owner: job.OfCopyBackupsTask(task)})
	g.Expect(err).NotTo(HaveOccurred())
	var from, to store.Config
	config := copier.Config{Now: time.Now(), Log: logOf(t)}
	flags := pflag.NewFlagSet("copy", pflag.ContinueOnError)
	from.AddFlags(flags, "source-")
	to.AddFlags(flags, "")
	flags.DurationVar(&config.WaitForFinal, "wait-for-final-snapshot", 0, "")
	args := built.Spec.Template.Spec.Containers[0].Args
	g.Expect(args[0]).To(Equal("copy"))
	g.Expect(flags.Parse(args[1:])).To(Succeed())
	for _, side := range []*store.Config{&from, &to} {
		g.Expect(side.Credentials).To(HavePrefix("/var/etcd/store/"))
		side.Credentials = bucketServer.config(secret).Credentials
	}
	config.Source, config.Target = openStore(t, from), openStore(t, to)

	type outcome struct {
		copier.Result
		err error
	}
	copied := make(chan outcome, 1)
	go func() {
		result, err := copier.Copy(t.Context(), config)
		copied <- outcome{result, err}
	}()
	g.Consistently(copied).WithTimeout(time.Second).ShouldNot(Receive(), "there is no final snapshot yet")
	put(g, e, "last", 20)
	_, err = r.Full(t.Context(), true)
	g.Expect(err).NotTo(HaveOccurred())
	var done outcome
	g.Eventually(copied).WithTimeout(machine.Patience()).Should(Receive(&done))
	g.Expect(done.err).NotTo(HaveOccurred())
	g.Expect(done.FinalSnapshot).To(HaveValue(BeTrue()))
	restoresTo(t, g, e, config.Target)
}

// The keys of Gardener's Secrets for Alibaba Cloud are those of its own service.
func TestKeysOfAlibabaCloud(t *testing.T) {
	t.Parallel()
	s := startS3(t)
	config := s.config(secret)
	config.Credentials = credentials(t, map[string]string{
		"accessKeyID": access, "accessKeySecret": secret, "storageEndpoint": "http://" + s.address, "region": "here", "s3ForcePathStyle": "true",
	})
	objectsIn(t, openStore(t, config))
	config.Credentials = credentials(t, map[string]string{"accessKeyID": access, "accessKeySecret": secret, "storageEndpoint": " "})
	_, err := store.Open(t.Context(), config)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the credentials lack storageEndpoint")))
	NewWithT(t).Expect(strings.Contains(err.Error(), secret)).To(BeFalse())
}
