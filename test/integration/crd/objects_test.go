// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// controlPlane is an Etcd with the fields that Gardener sets. The placeholders are the replicas, further fields of spec.etcd, of
// the store, and of spec.
const controlPlane = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata:
  name: etcd-main
  labels: {gardener.cloud/role: controlplane, role: main}
  annotations: {gardener.cloud/operation: reconcile, gardener.cloud/timestamp: "2026-01-01T00:00:00.000Z"}
spec:
  replicas: %s
  priorityClassName: gardener-system-500
  labels: {role: main, networking.gardener.cloud/to-dns: allowed}
  annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
  selector: {matchLabels: {role: main}}
  etcd:
    resources: {requests: {cpu: 150m, memory: 500M}}
    clientUrlTls: &tls
      tlsCASecretRef: {name: ca, namespace: ns, dataKey: bundle.crt}
      serverTLSSecretRef: {name: server, namespace: ns}
      clientTLSSecretRef: {name: client, namespace: ns}
    clientPort: 2379
    serverPort: 2380
    wrapperPort: 9095
    metrics: extensive
    defragmentationSchedule: 10 14 * * *
    quota: 8Gi
    clientService:
      annotations: {networking.resources.gardener.cloud/namespace-selectors: "[]"}
      trafficDistribution: PreferSameZone
    %s
  backup:
    tls: *tls
    port: 8080
    resources: {requests: {cpu: 20m, memory: 80Mi}}
    snapshotCompaction: {resources: {requests: {cpu: 600m, memory: 3Gi}}}
    garbageCollectionPolicy: Exponential
    garbageCollectionPeriod: 12h0m0s
    compression: {enabled: true, policy: gzip}
    store:
      container: shoot-bucket
      prefix: shoot--foo--bar--uid/etcd-main
      %s
    fullSnapshotSchedule: 30 22 * * *
    deltaSnapshotPeriod: 5m0s
    deltaSnapshotMemoryLimit: 100Mi
    deltaSnapshotRetentionPeriod: 48h0m0s
    leaderElection: {reelectionPeriod: 11s, etcdConnectionTimeout: 5m0s}
  sharedConfig: {}
  schedulingConstraints: {}
  storageCapacity: 25Gi
  volumeClaimTemplate: main-etcd
  %s
status: {}
`

func gardenerEtcd(t *testing.T, replicas, etcd, store, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, controlPlane, replicas, etcd, store, spec), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

const withSecret = "secretRef: {name: etcd-backup}\n      provider: "

// What Gardener deploys is admitted under the project's definition, and no field of it is pruned: validation is strict.
func gardenersEtcds(t *testing.T) {
	strict := client.WithFieldValidation(testEnv.Client, "Strict")
	peers := "peerUrlTls: {tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: peer}, clientTLSSecretRef: {}}"
	objects := map[string]*unstructured.Unstructured{
		"one member":                                gardenerEtcd(t, "1", "", withSecret+"aws", ""),
		"three members":                             gardenerEtcd(t, "3", peers, withSecret+"aws", "memberNamePrefix: seed"),
		"hibernated":                                gardenerEtcd(t, "0", "", withSecret+"gcp", ""),
		"without a Secret":                          gardenerEtcd(t, "1", "", "provider: S3", ""),
		"Sunday is 7":                               gardenerEtcd(t, "1", "authSecretRef: {name: a}", withSecret+"aws", ""),
		"another endpoint":                          gardenerEtcd(t, "1", "", withSecret+"aws\n      endpointOverride: https://s3.example.com", ""),
		"further URLs with a prefix":                gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {overrideDefaultURL: true, members: [{name: seed-etcd-main-0, urls: ["http://a", "http://[::1]:1/"]}]}, clientURLs: {members: [{name: seed-etcd-main-2, urls: ["https://a:1"]}]}}`, withSecret+"aws", "memberNamePrefix: seed"),
		"further URLs of a hibernated cluster":      gardenerEtcd(t, "0", `additionalAdvertisePeerURLs: [{memberName: etcd-main-2, urls: ["http://a:1"]}]`, withSecret+"aws", ""),
		"further URLs with managed TLS among peers": gardenerEtcd(t, "3", `additionalAdvertisePeerURLs: [{memberName: etcd-main-2, urls: ["https://a:1"]}]`, withSecret+"aws", "managedTLS: {connections: [Peers]}"),
		"what is false or empty":                    gardenerEtcd(t, "1", "additionalAdvertisePeerURLs: []", withSecret+"aws", "runAsRoot: false\n  externallyManagedMemberAddresses: []"),
		"what etcd offers":                          gardenerEtcd(t, "1", "backendBboltFreelistType: array\n    enableGRPCGateway: false", withSecret+"aws", ""),
	}
	set := func(name, value string, path ...string) {
		if err := unstructured.SetNestedField(objects[name].Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	set("Sunday is 7", "0 0 * * 7", "spec", "backup", "fullSnapshotSchedule")
	set("Sunday is 7", "0 0 * * 5-7", "spec", "etcd", "defragmentationSchedule")
	set("what etcd offers", "300000000µs", "spec", "backup", "deltaSnapshotPeriod")
	for _, provider := range []string{"azure", "openstack", "alicloud", "stackit", "dell", "openshift", "ABS", "Swift", "OSS", "ECS", "OCS", "s3", "gcs", "swift"} {
		objects["provider "+provider] = gardenerEtcd(t, "1", "", withSecret+provider, "")
	}
	for name, object := range objects {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object.SetNamespace(testEnv.Namespace(t))
			g.Expect(strict.Create(t.Context(), object)).To(Succeed())
		})
	}
	refused := map[string]struct {
		object *unstructured.Unstructured
		says   string
	}{
		"two members":                 {gardenerEtcd(t, "2", "", withSecret+"aws", ""), "spec.replicas: Unsupported value: 2"},
		"static pods":                 {gardenerEtcd(t, "1", "", withSecret+"aws", "externallyManagedMemberAddresses: [10.0.0.1]"), "externallyManagedMemberAddresses is not supported"},
		"root":                        {gardenerEtcd(t, "1", "", withSecret+"aws", "runAsRoot: true"), "runAsRoot is not supported"},
		"a join without TLS of peers": {gardenerEtcd(t, "1", "bootstrapWithExistingCluster: {members: [{name: a, peerUrls: [\"https://a\"]}], clientEndpoints: [\"https://a\"]}", withSecret+"aws", ""), "when peerUrlTls is not enabled, all bootstrapWithExistingCluster member peer URLs must use http://"},
		"peer URLs in both fields": {gardenerEtcd(t, "3", `additionalAdvertisePeerURLs: [{memberName: etcd-main-0, urls: ["http://a:1"]}]
    additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0, urls: ["http://a:1"]}]}}`, withSecret+"aws", ""), "mean the same: set one of them"},
		"a peer URL with TLS of peers without it": {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0, urls: ["https://a:1"]}]}}`, withSecret+"aws", ""), "when peerUrlTls is not enabled, all additionalAdvertisedURLs.peerURLs must use http://"},
		"a client URL without TLS":                {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {clientURLs: {members: [{name: etcd-main-0, urls: ["http://a:1"]}]}}`, withSecret+"aws", ""), "when clientUrlTls is enabled, all additionalAdvertisedURLs.clientURLs must use https://"},
		"a URL of a member of another Etcd":       {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-other-0, urls: ["http://a:1"]}]}}`, withSecret+"aws", ""), "additionalAdvertisedURLs.peerURLs member names must start with the Etcd resource name"},
		"a URL of a name that no member has":      {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0-1, urls: ["http://a:1"]}]}}`, withSecret+"aws", ""), "and end with the ordinal of a member"},
		"a client URL of a member too many":       {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {clientURLs: {members: [{name: etcd-main-3, urls: ["https://a:1"]}]}}`, withSecret+"aws", ""), "additionalAdvertisedURLs.clientURLs member name index must be less than replicas"},
		"a URL with a path":                       {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0, urls: ["http://a:1/b"]}]}}`, withSecret+"aws", ""), "must have a host, and neither path nor query"},
		"a URL without a host":                    {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0, urls: ["http://:2380"]}]}}`, withSecret+"aws", ""), "must have a host, and neither path nor query"},
		"no members with URLs":                    {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {overrideDefaultURL: true, members: []}}`, withSecret+"aws", ""), "should have at least 1 items"},
		"a URL without the prefix":                {gardenerEtcd(t, "3", `additionalAdvertisedURLs: {peerURLs: {members: [{name: etcd-main-0, urls: ["http://a:1"]}]}}`, withSecret+"aws", "memberNamePrefix: seed"), "member names must start with"},
		"host path":                               {gardenerEtcd(t, "1", "", withSecret+"local", ""), "a host path is not supported"},
		"tape":                                    {gardenerEtcd(t, "1", "", withSecret+"tape", ""), "provider must be"},
		"Azure without a Secret":                  {gardenerEtcd(t, "1", "", "provider: azure", ""), "the Secret names the storage account"},
	}
	for name, tc := range refused {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			tc.object.SetNamespace(testEnv.Namespace(t))
			g.Expect(strict.Create(t.Context(), tc.object)).To(MatchError(ContainSubstring(tc.says)))
		})
	}
	t.Run("scale", func(t *testing.T) {
		g := NewWithT(t)
		object := objects["three members"]
		g.Expect(unstructured.SetNestedField(object.Object, "a=b", "status", "selector")).To(Succeed())
		g.Expect(testEnv.Client.Status().Update(t.Context(), object)).To(Succeed())
		scale := &autoscalingv1.Scale{}
		typed := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
		g.Expect(testEnv.Client.SubResource("scale").Get(t.Context(), typed, scale)).To(Succeed())
		g.Expect(scale.Spec.Replicas).To(BeEquivalentTo(3))
		g.Expect(scale.Status.Selector).To(Equal("a=b"))
	})
	t.Run("a status of etcd-druid", func(t *testing.T) {
		g := NewWithT(t)
		object := objects["one member"]
		var status map[string]any
		g.Expect(yaml.Unmarshal([]byte(strings.TrimSpace(druidStatus)), &status)).To(Succeed())
		object.Object["status"] = status
		g.Expect(testEnv.Client.Status().Update(t.Context(), object)).To(Succeed())
		object.SetLabels(map[string]string{"changed": "true"})
		g.Expect(testEnv.Client.Update(t.Context(), object)).To(Succeed(), "an Etcd that etcd-druid has served can still be changed")
	})
}

// druidStatus has the forms that etcd-druid writes.
const druidStatus = `
observedGeneration: 1
conditions:
- {type: Ready, status: "True", reason: Quorate, message: ok, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:00Z"}
lastErrors: [{code: ERR_GET_STATEFULSET, description: "no", observedAt: "2026-01-01T00:00:00Z"}]
lastOperation: {type: Reconcile, state: Succeeded, description: done, runID: a1, lastUpdateTime: "2026-01-01T00:00:00Z"}
members: [{name: etcd-main-0, id: "1", role: Member, status: Ready, reason: LeaseSucceeded, lastTransitionTime: "2026-01-01T00:00:00Z"}]
etcd: {apiVersion: apps/v1, kind: StatefulSet, name: etcd-main}
labelSelector: {matchLabels: {a: b}}
peerUrlTLSEnabled: false
selector: a=b
ready: true
`
