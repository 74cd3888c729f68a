//go:build !nodruid

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Beside etcd-druid, what the configuration says of stores and TLS keeps no pod from being replaced: admission has kept the StatefulSet
// controller from doing so. It keeps Jobs of the operator from the store.
func TestRulesBesideDruid(t *testing.T) {
	secret := &v1alpha1.SecretReference{Name: "etcd-backup"}
	for name, tc := range map[string]struct {
		store    v1alpha1.StoreSpec
		compacts bool
	}{
		"a local store of Gardener": {v1alpha1.StoreSpec{Provider: "local", Container: "bucket", Prefix: "a/b", SecretRef: secret}, false},
		"no Secret":                 {v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", Prefix: "a/b"}, false},
		"an endpoint":               {v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", Prefix: "a/b", SecretRef: secret, EndpointOverride: ptr.To("https://s3")}, false},
		"requireTLS alone":          {v1alpha1.StoreSpec{Provider: "S3", Container: "bucket", Prefix: "a/b", SecretRef: secret}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			live := fake.NewClientBuilder().WithScheme(scheme).Build()
			c, err := newComposition(&configv1alpha1.OperatorConfiguration{Mode: configv1alpha1.ModeExecutor, RequireTLS: true}, Dependencies{
				Client: live, Live: live, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
			})
			g.Expect(err).NotTo(HaveOccurred())
			// The view of an Etcd has no spec.etcd.peerUrlTls.
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{Store: &tc.store}}}
			admit := func(of v1alpha1.TaskType, config string) tasks.Verdict {
				h := c.registry()[of].Handler
				decoded, err := h.Decode(config)
				g.Expect(err).NotTo(HaveOccurred())
				v, err := h.Admit(t.Context(), tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}, Etcd: etcd, Config: decoded})
				g.Expect(err).NotTo(HaveOccurred())
				return v
			}
			for of, config := range map[v1alpha1.TaskType]string{
				v1alpha1.QuorumAwareRollout: "", v1alpha1.OnDemandSnapshot: "type: full", v1alpha1.OnDemandMaintenance: "etcdDefragmentation: true",
			} {
				g.Expect(admit(of, config).Code).To(Equal(v1alpha1.ErrStatefulSetNotFound), "%s: the handler itself is asked", of)
			}
			if v := admit(v1alpha1.OnDemandCompaction, ""); tc.compacts {
				g.Expect(v.Outcome).To(Equal(tasks.Continue), v.Message)
			} else {
				g.Expect(v.Code).To(Equal(v1alpha1.ErrNotAllowed))
			}
		})
	}
}
