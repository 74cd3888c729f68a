// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// decision is whether etcd-druid's definition admits an object that has a field with a value.
type decision struct {
	what string
	// spec is merged into that of an object of a kind; changed, if it is not empty, is what an update makes of it.
	kind, spec, changed string
	admitted            bool
	// differs is the row of docs/gardener.md that says why the project decides otherwise; empty if it does not.
	differs string
}

// minimal are the specs that the fields of a decision are merged into.
var minimal = map[string]string{
	"Etcd":                `{replicas: 3, labels: {app: etcd}, backup: {}, etcd: {}, sharedConfig: {}}`,
	"EtcdCopyBackupsTask": `{sourceStore: {container: source, prefix: /tmp, provider: aws, secretRef: {name: a}}, targetStore: {container: target, prefix: /tmp, provider: aws, secretRef: {name: b}}}`,
	"EtcdOpsTask":         `{etcdName: etcd-main, config: {onDemandSnapshot: {type: full}}}`,
}

// values are the decisions about values of one field, at a path in a spec. A value is YAML.
func values(kind, path string, admitted, refused []string) []decision {
	var all []decision
	for _, of := range []struct {
		values []string
		admit  bool
	}{{admitted, true}, {refused, false}} {
		for _, value := range of.values {
			spec := value
			parts := strings.Split(path, ".")
			for i := len(parts) - 1; i >= 0; i-- {
				spec = fmt.Sprintf("{%s: %s}", parts[i], spec)
			}
			all = append(all, decision{what: path + " " + value, kind: kind, spec: spec, admitted: of.admit})
		}
	}
	return all
}

// updates are the decisions about changes of one field from a value to another; an empty value stands for none.
func updates(kind, field string, admitted, refused [][2]string) []decision {
	of := func(value string) string {
		if value == "" {
			return "{}"
		}
		return fmt.Sprintf("{%s: %s}", field, value)
	}
	var all []decision
	for i, change := range append(admitted, refused...) {
		all = append(all, decision{what: fmt.Sprintf("%s %q to %q", field, change[0], change[1]), kind: kind, spec: of(change[0]), changed: of(change[1]), admitted: i < len(admitted)})
	}
	return all
}

// decisions are those of etcd-druid 0.38 that its own tests of the definitions ask for.
func decisions() []decision {
	var all []decision
	for _, field := range []string{
		"backup.deltaSnapshotRetentionPeriod", "backup.etcdSnapshotTimeout", "backup.leaderElection.reelectionPeriod", "backup.leaderElection.etcdConnectionTimeout",
		"backup.garbageCollectionPeriod", "backup.deltaSnapshotPeriod", "etcd.etcdDefragTimeout", "etcd.heartbeatDuration",
	} {
		all = append(all, values("Etcd", field, []string{"1h2m3s", "3m735s"}, []string{"hms", "-10h2m3s"})...)
	}
	for _, field := range []string{"backup.fullSnapshotSchedule", "etcd.defragmentationSchedule"} {
		all = append(all, values("Etcd", field,
			[]string{"'* * * * *'", "'0 */24 * * *'", "'*/57 23 30/31 6-12 2/7'", "'0 21-22 30/31 11-12 2/7'"}, []string{"'61 23 * * *'", "'3 */24 12 *'"})...)
	}
	for _, more := range [][]decision{
		values("Etcd", "backup.garbageCollectionPolicy", []string{"Exponential", "LimitBased"}, []string{"Invalid", "''"}),
		values("Etcd", "backup.compression.policy", []string{"gzip", "lzw", "zlib"}, []string{"7zip", "''"}),
		containers("{prefix: a, container: %s}"), containers("{prefix: a, container: %s, provider: aws, secretRef: {name: b}}"),
		values("Etcd", "etcd.metrics", []string{"basic", "extensive"}, []string{"random", "''"}),
		values("Etcd", "etcd.backendBboltFreelistType", []string{"array", "map"}, []string{"someDummy"}),
		values("Etcd", "sharedConfig.autoCompactionMode", []string{"periodic", "revision"}, []string{"dummy", "''"}),
		// etcd-druid 0.38 refuses another class, and one that is added: the project moves the volumes.
		updates("Etcd", "storageClass", [][2]string{{"fast", "fast"}}, [][2]string{{"initial", ""}}),
		// etcd-druid 0.38 refuses 5 to 3, and no longer will (DEP-08): the project carries it out.
		updates("Etcd", "replicas", [][2]string{{"3", "5"}, {"3", "0"}}, nil),
		updates("Etcd", "volumeClaimTemplate", [][2]string{{"main-etcd", "main-etcd"}}, [][2]string{{"main-etcd", "another"}, {"", "New-Value"}, {"Initial-vc", ""}}),
		values("EtcdCopyBackupsTask", "waitForFinalSnapshot", []string{"{enabled: true, timeout: 1h2m3s}", "{enabled: true, timeout: 3m735s}", "{enabled: true, timeout: '0'}", "{enabled: true, timeout: 1.5h}", "{enabled: true, timeout: 10ms}"},
			[]string{"{enabled: true, timeout: hms}", "{enabled: true, timeout: -10h2m3s}", "{enabled: true, timeout: 10d}"}),
		values("EtcdCopyBackupsTask", "maxBackupAge", []string{"1", "0"}, []string{"-1"}),
		values("EtcdCopyBackupsTask", "maxBackups", []string{"10", "0"}, []string{"-10"}),
		values("EtcdOpsTask", "ttlSecondsAfterFinished", []string{"1800"}, []string{"0", "-100"}),
		values("EtcdOpsTask", "config.onDemandSnapshot", []string{"{type: full}", "{type: full, isFinal: true}", "{type: delta}", "{type: full, isFinal: false}", "{type: full, timeoutSecondsFull: 120}"},
			[]string{"{type: delta, isFinal: true}", "{type: delta, timeoutSecondsDelta: 0}", "{type: full, timeoutSecondsFull: 60}", "{type: full, timeoutSecondsFull: 9}", "{type: full, timeoutSecondsFull: -30}", "{type: invalid}", "{type: incremental}", "{type: ''}"}),
		values("EtcdOpsTask", "config", nil, []string{"{}"}),
		updates("EtcdOpsTask", "ttlSecondsAfterFinished", [][2]string{{"3600", "3600"}, {"", ""}}, [][2]string{{"3600", "7200"}, {"", "1800"}, {"1800", ""}}),
		updates("EtcdOpsTask", "config", [][2]string{{"{onDemandSnapshot: {type: full}}", "{onDemandSnapshot: {type: full}}"}},
			[][2]string{{"{onDemandSnapshot: {type: full}}", "{onDemandSnapshot: {type: delta}}"}, {"{onDemandSnapshot: {type: delta}}", "{onDemandSnapshot: {type: full}}"}}),
		peerURLs(), joins(),
		{{what: "peerUrlTls.skipClientSANVerification", kind: "Etcd", admitted: true,
			spec: "{etcd: {peerUrlTls: {tlsCASecretRef: {name: ca, dataKey: ca.crt}, serverTLSSecretRef: {name: peer}, skipClientSANVerification: true}}}"}},
	} {
		all = append(all, more...)
	}
	return all
}

// containers are the decisions about the name of a bucket, in a store of a form.
func containers(store string) []decision {
	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = fmt.Sprintf(store, "'"+name+"'")
		}
		return names
	}
	return values("Etcd", "backup.store", in("etcd-bucket", "default.bkp", "object-storage-container-name", "foo"),
		in("x; id > /tmp/pwned; #", "a b", "-rf", "../etc", "$(whoami)", "foo-", "foo.", "ab"))
}

// peerURLs are the decisions about further peer URLs. The Etcds have the name etcd-main.
func peerURLs() []decision {
	const withTLS = ", peerUrlTls: {tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: peer}}"
	of := func(admitted bool, replicas, tls string, members ...string) decision {
		return decision{
			what: fmt.Sprintf("additionalAdvertisePeerURLs of %s members%s: %s", replicas, tls, members), kind: "Etcd", admitted: admitted,
			spec: fmt.Sprintf("{replicas: %s, etcd: {additionalAdvertisePeerURLs: [%s]%s}}", replicas, strings.Join(members, ", "), tls),
		}
	}
	member := func(name string, urls ...string) string {
		return fmt.Sprintf(`{memberName: %s, urls: [%s]}`, name, `"`+strings.Join(urls, `", "`)+`"`)
	}
	const http, https = "http://10.0.0.1:2380", "https://10.0.0.1:2380"
	return []decision{
		of(true, "3", "", member("etcd-main-0", http)), of(true, "5", "", member("etcd-main-4", http)),
		of(false, "3", "", member("etcd-other-0", http)), of(false, "3", "", member("etcd-main-3", http)),
		of(false, "3", "", member("etcd-main-abc", http)), of(false, "3", "", member("etcd-main-", http)),
		of(true, "3", withTLS, member("etcd-main-0", https)), of(true, "3", "", member("etcd-main-1", http, "http://10.0.0.2:2380")),
		of(true, "3", withTLS, member("etcd-main-1", https, "https://10.0.0.2:2380")), of(false, "3", withTLS, member("etcd-main-0", http)),
		of(false, "3", "", member("etcd-main-0", https)), of(false, "3", "", member("etcd-main-0", http, https)),
		of(true, "3", "", member("etcd-main-0", http), member("etcd-main-1", http), member("etcd-main-2", http)),
		of(true, "5", "", member("etcd-main-0", http), member("etcd-main-2", http)),
		of(false, "3", "", member("etcd-main-0", http), member("etcd-other-1", http)), of(false, "3", "", member("etcd-main-0", http), member("etcd-main-5", http)),
	}
}

// joins are the decisions about a cluster that joins another one. What is decided by the condition BootstrappedWithExistingCluster is in
// joinsInProgress.
func joins() []decision {
	of := func(admitted bool, members, endpoints string) decision {
		return decision{
			what: "bootstrapWithExistingCluster " + members + " " + endpoints, kind: "Etcd", admitted: admitted,
			spec: fmt.Sprintf("{etcd: {bootstrapWithExistingCluster: {members: [%s], clientEndpoints: [%s]}}}", members, endpoints),
		}
	}
	const a, endpoint = `{name: src-0, peerUrls: ["http://10.0.0.1:2380"]}`, `"http://10.0.0.1:2379"`
	later := of(false, a, endpoint)
	later.what, later.spec, later.changed = "bootstrapWithExistingCluster of an Etcd that is there", "{}", later.spec
	return []decision{
		later,
		of(true, a+`, {name: src-1, peerUrls: ["http://10.0.0.2:2380"]}`, endpoint), of(false, a+`, {name: src-0, peerUrls: ["http://10.0.0.2:2380"]}`, endpoint),
		of(true, a, endpoint), of(false, `{name: etcd-main-0, peerUrls: ["http://10.0.0.1:2380"]}`, endpoint),
		of(true, `{name: src-0, peerUrls: ["http://10.0.0.1:2380", "http://10.0.0.2:2380"]}`, endpoint),
		of(false, `{name: src-0, peerUrls: ["http://10.0.0.1:2380", "http://10.0.0.1:2380"]}`, endpoint), of(false, a, endpoint+", "+endpoint),
		prefixed(true, `etcd-main-0`), prefixed(false, `main-etcd-main-0`),
		of(false, a, `"https://10.0.0.1:2379"`), of(false, `{name: src-0, peerUrls: ["https://10.0.0.1:2380"]}`, endpoint), of(false, "", endpoint), of(false, a, ""),
	}
}

// prefixed is the decision about the name of a source beside an Etcd whose members have a prefix.
func prefixed(admitted bool, name string) decision {
	return decision{
		what: "bootstrapWithExistingCluster of " + name + " beside a memberNamePrefix", kind: "Etcd", admitted: admitted,
		spec: fmt.Sprintf(`{memberNamePrefix: main, etcd: {bootstrapWithExistingCluster: {members: [{name: %s, peerUrls: ["http://10.0.0.1:2380"]}], clientEndpoints: ["http://10.0.0.1:2379"]}}}`, name),
	}
}

// While members join, the source cluster stays the same. Of the two definitions only the project's keeps the field until they have
// joined: without it nothing would say whose the other members are.
func joinsInProgress(t *testing.T, whose string) {
	const stopped, field = `{replicas: 0, `, `{etcd: {bootstrapWithExistingCluster: {members: [%s], clientEndpoints: [%s]}}}`
	const a, b, more = `{name: src-0, peerUrls: ["http://10.0.0.1:2380"]}`, `{name: src-1, peerUrls: ["http://10.0.0.2:2380"]}`, `{name: src-0, peerUrls: ["http://10.0.0.1:2380", "http://10.0.0.99:2380"]}`
	const one, two = `"http://10.0.0.1:2379"`, `"http://10.0.0.1:2379", "http://10.0.0.2:2379"`
	before, namespace := fmt.Sprintf(field, a, one), testEnv.Namespace(t)
	for _, c := range []struct {
		what, condition, after string
		admitted               bool
	}{
		{"no condition, other members", "", fmt.Sprintf(field, a+", "+b, one), true},
		{"joined, other members", "True", fmt.Sprintf(field, a+", "+b, one), true},
		{"in progress, no change", "False", before, true},
		{"in progress, other members", "False", fmt.Sprintf(field, a+", "+b, one), false},
		{"in progress, other URLs", "False", fmt.Sprintf(field, more, one), false},
		{"in progress, other endpoints", "False", fmt.Sprintf(field, a, two), false},
		{"given up, other members", "False", fmt.Sprintf(stopped+field[1:], a+", "+b, one), whose == "etcd-foreman"},
		{"given up, other endpoints", "False", fmt.Sprintf(stopped+field[1:], a, two), whose == "etcd-foreman"},
		{"joined, removed", "True", "{etcd: {}}", true},
		{"in progress, removed", "False", "{etcd: {}}", whose == "etcd-druid"},
		{"no condition, removed", "", "{etcd: {}}", whose == "etcd-druid"},
	} {
		t.Run(c.what, func(t *testing.T) {
			g := NewWithT(t)
			d := decision{kind: "Etcd"}
			was := before
			if strings.HasPrefix(c.after, stopped) {
				was = stopped + before[1:]
			}
			etcd := d.object(g, was)
			etcd.SetNamespace(namespace)
			g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
			defer func() { g.Expect(testEnv.Client.Delete(t.Context(), etcd)).To(Succeed()) }()
			if c.condition != "" {
				now := metav1.Now().UTC().Format(time.RFC3339)
				etcd.Object["status"] = map[string]any{"conditions": []any{map[string]any{
					"type": "BootstrappedWithExistingCluster", "status": c.condition, "reason": "Test", "message": "test", "lastTransitionTime": now, "lastUpdateTime": now,
				}}}
				g.Expect(testEnv.Client.Status().Update(t.Context(), etcd)).To(Succeed())
			}
			etcd.Object["spec"] = d.object(g, c.after).Object["spec"]
			err := testEnv.Client.Update(t.Context(), etcd)
			g.Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsInvalid)))
			g.Expect(err == nil).To(Equal(c.admitted), "%v", err)
		})
	}
}

// The project's definitions decide as etcd-druid's, but for what docs/gardener.md lists. Those of etcd-druid are asked, too, so that
// the table is true.
func decide(t *testing.T, whose string) {
	namespace := testEnv.Namespace(t)
	for _, d := range decisions() {
		t.Run(d.what, func(t *testing.T) {
			NewWithT(t).Expect(d.ask(t, namespace)).To(Equal(d.admitted && (d.differs == "" || whose == "etcd-druid")))
		})
	}
}

// ask creates the object of a decision, changes it if that is what is decided, and reports whether that was admitted.
func (d decision) ask(t *testing.T, namespace string) bool {
	t.Helper()
	g := NewWithT(t)
	object := d.object(g, d.spec)
	object.SetNamespace(namespace)
	err := testEnv.Client.Create(t.Context(), object)
	if err == nil {
		defer func() { g.Expect(testEnv.Client.Delete(t.Context(), object)).To(Succeed()) }()
		if d.changed != "" {
			object.Object["spec"] = d.object(g, d.changed).Object["spec"]
			err = testEnv.Client.Update(t.Context(), object)
		}
	} else {
		g.Expect(d.changed).To(BeEmpty(), "%v", err)
	}
	t.Logf("%s: %v", d.what, err)
	g.Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsInvalid)))
	return err == nil
}

// object returns an object with the fields of a spec.
func (d decision) object(g Gomega, spec string) *unstructured.Unstructured {
	var base, more map[string]any
	g.Expect(yaml.Unmarshal([]byte(minimal[d.kind]), &base)).To(Succeed())
	g.Expect(yaml.Unmarshal([]byte(spec), &more)).To(Succeed(), spec)
	maps.Copy(base, more)
	name := "etcd-main"
	if d.kind != "Etcd" {
		name = "task-" + rand.String(8)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": d.kind, "metadata": map[string]any{"name": name}, "spec": base,
	}}
}

// An Etcd that is there keeps the name of a bucket that is refused now, such as that of a claim with two characters, and can be
// changed elsewhere, also in its store.
func TestAnEarlierContainerStays(t *testing.T) {
	g := machine.Gomega(t)
	now := own(t, "etcd")[0]
	earlier := now.DeepCopy()
	versions := earlier.Object["spec"].(map[string]any)["versions"].([]any)
	store := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, name := range []string{"spec", "backup", "store", "container"} {
		store = store["properties"].(map[string]any)[name].(map[string]any)
	}
	g.Expect(store).To(HaveKey("pattern"))
	delete(store, "pattern")
	install(t, g.WithT, earlier)
	etcd := decision{kind: "Etcd"}.object(g, "{backup: {store: {container: ab, provider: Local}}}")
	etcd.SetNamespace(testEnv.Namespace(t))
	g.Expect(testEnv.Client.Create(t.Context(), etcd)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(earlier), earlier)).To(Succeed())
		now.SetResourceVersion(earlier.GetResourceVersion())
		g.Expect(testEnv.Client.Update(t.Context(), now)).To(Succeed())
	}).Should(Succeed())

	set := func(field, value string, options ...client.UpdateOption) error {
		changed := etcd.DeepCopy()
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(etcd), changed)).To(Succeed())
		g.Expect(unstructured.SetNestedField(changed.Object, value, "spec", "backup", "store", field)).To(Succeed())
		return testEnv.Client.Update(t.Context(), changed, options...)
	}
	// What was admitted by the earlier definition would stay.
	g.Eventually(func() error { return set("container", "-a", client.DryRunAll) }).WithTimeout(machine.Patience()).Should(Satisfy(apierrors.IsInvalid), "the definition is in use")
	g.Expect(set("prefix", "another")).To(Succeed())
	g.Expect(set("container", "abc")).To(Succeed())
	g.Expect(set("container", "ab")).To(Satisfy(apierrors.IsInvalid))
}
