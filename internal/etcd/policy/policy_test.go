// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// etcd-druid runs no members of such an Etcd: a second cluster would begin beside its static pods.
func TestStaticPods(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{}
	g.Expect(Rules{}.Etcd(etcd)).To(Succeed())
	etcd.Annotations = map[string]string{"druid.gardener.cloud/disable-etcd-runtime-component-creation": ""}
	g.Expect(Rules{}.Etcd(etcd)).To(MatchError(And(ContainSubstring("disable-etcd-runtime-component-creation is not supported"), ContainSubstring("leave the Etcd to etcd-druid"))))
}

func TestImages(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	rules := Rules{Images: []string{"gcr.io/etcd-development/etcd", "quay.io/x/etcd:v3.6.8", "ghcr.io/mine/", "registry:5000/etcd", "gcr.io/one" + digest}}
	for image, allowed := range map[string]bool{
		"":                                         true,
		"gcr.io/etcd-development/etcd":             true,
		"gcr.io/etcd-development/etcd:v3.6.8":      true,
		"gcr.io/etcd-development/etcd" + digest:    true,
		"gcr.io/etcd-development/etcd:v3" + digest: true,
		"gcr.io/etcd-development/etcd-evil:v3.6.8": false,
		"gcr.io/etcd-development/etcd/evil:v1":     false,
		"gcr.io/etcd-development/etcd:v1/evil":     false,
		"evil.io/gcr.io/etcd-development/etcd":     false,
		"quay.io/x/etcd:v3.6.8":                    true,
		"quay.io/x/etcd:v3.6.80":                   false,
		"quay.io/x/etcd:v3.6.7":                    false,
		"quay.io/x/etcd":                           false,
		"quay.io/x/etcd:v3.6.8" + digest:           false,
		"ghcr.io/mine/anything:v1":                 true,
		"ghcr.io/mine":                             false,
		"ghcr.io/mineral/anything:v1":              false,
		"registry:5000/etcd:v1":                    true,
		"registry:50001/etcd:v1":                   false,
		"gcr.io/one" + digest:                      true,
		"gcr.io/one:v1":                            false,
	} {
		for field, set := range map[string]func(*v1alpha1.Etcd){
			"spec.etcd.image":   func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To(image) },
			"spec.backup.image": func(e *v1alpha1.Etcd) { e.Spec.Backup = &v1alpha1.BackupSpec{Image: ptr.To(image)} },
		} {
			t.Run(field+" "+image, func(t *testing.T) {
				g := NewWithT(t)
				etcd := &v1alpha1.Etcd{}
				set(etcd)
				g.Expect(Rules{}.Etcd(etcd)).To(Succeed(), "without a list, everything is allowed")
				if allowed {
					g.Expect(rules.Etcd(etcd)).To(Succeed())
				} else {
					g.Expect(rules.Etcd(etcd)).To(MatchError(And(ContainSubstring(field), ContainSubstring("%q is not allowed", image))))
				}
			})
		}
	}
}

// A registry alone names no repository: what follows could be another port.
func TestARegistryIsNoRepository(t *testing.T) {
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Etcd: v1alpha1.EtcdConfig{Image: ptr.To("registry:5000/evil")}}}
	NewWithT(t).Expect(Rules{Images: []string{"registry"}}.Etcd(etcd)).NotTo(Succeed())
}

func inBucket(prefix string) v1alpha1.StoreSpec {
	return v1alpha1.StoreSpec{Provider: "S3", Container: "b", Prefix: prefix, SecretRef: &v1alpha1.SecretReference{Name: "s"}}
}

func etcdWith(name string, store *v1alpha1.StoreSpec) v1alpha1.Etcd {
	return v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{Store: store}}}
}

func TestPrefixes(t *testing.T) {
	for prefix, allowed := range map[string]bool{"": true, "ns/main": true, "ns/a/b": true, "ns": false, "nsx/main": false, "other/main": false} {
		g := NewWithT(t)
		etcd := etcdWith("main", ptr.To(inBucket(prefix)))
		g.Expect(Rules{}.Etcd(&etcd)).To(Succeed())
		if err := (Rules{NamespacePrefixes: true}).Etcd(&etcd); allowed {
			g.Expect(err).NotTo(HaveOccurred(), prefix)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(`starts with "ns/"`)), prefix)
		}
	}
}

// Without a Secret the pods of a store use an identity that may be that of their node: a user who may create an Etcd may not, unless
// that is allowed. A volume needs no Secret.
func TestTheIdentityOfANode(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "aws", Container: "bucket"}}
	g.Expect(Rules{}.Etcd(etcd)).To(MatchError(ContainSubstring("spec.backup.store has no secretRef")))
	g.Expect(Rules{CloudIdentity: true}.Etcd(etcd)).To(Succeed())
	etcd.Spec.Backup.Store.Provider = v1alpha1.ProviderLocal
	g.Expect(Rules{LocalClaims: []string{"*"}}.Etcd(etcd)).To(Succeed())
}

// A store of provider Local mounts a claim of its namespace, with whatever data it has: who may create an Etcd may not choose any.
func TestLocalClaims(t *testing.T) {
	local := v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups", Prefix: "a"}
	etcd := etcdWith("main", &local)
	for allowed, want := range map[string]bool{
		"": false, "*": true, "ns/*": true, "ns/backups": true, "ns/backup": false, "backups": false, "other/backups": false, "other/*": false, "n/*": false,
	} {
		g := NewWithT(t)
		rules := Rules{LocalClaims: []string{allowed}}
		if err := rules.Etcd(&etcd); want {
			g.Expect(err).NotTo(HaveOccurred(), allowed)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(`spec.backup.store mounts claim backups, which the operator's configuration (backup.localClaims) does not have`)), allowed)
		}
		source, target := inBucket("old"), local
		if err := rules.CopyWithoutEtcd("ns", nil, source, target); want {
			g.Expect(err).NotTo(HaveOccurred(), allowed)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring("targetStore mounts claim backups")), allowed)
		}
	}
}

func TestTLSMayBeRequired(t *testing.T) {
	clients, peers := &v1alpha1.ClientURLTLS{}, &v1alpha1.PeerURLTLS{}
	for name, c := range map[string]struct {
		spec v1alpha1.EtcdSpec
		want bool
	}{
		"none":         {v1alpha1.EtcdSpec{}, false},
		"clients only": {v1alpha1.EtcdSpec{Etcd: v1alpha1.EtcdConfig{ClientURLTLS: clients}}, false},
		"peers only":   {v1alpha1.EtcdSpec{Etcd: v1alpha1.EtcdConfig{PeerURLTLS: peers}}, false},
		"both":         {v1alpha1.EtcdSpec{Etcd: v1alpha1.EtcdConfig{ClientURLTLS: clients, PeerURLTLS: peers}}, true},
		"managed":      {v1alpha1.EtcdSpec{ManagedTLS: &v1alpha1.ManagedTLS{}}, true},
	} {
		g := NewWithT(t)
		etcd := &v1alpha1.Etcd{Spec: c.spec}
		g.Expect(Rules{}.Etcd(etcd)).To(Succeed(), name)
		if err := (Rules{TLS: true}).Etcd(etcd); c.want {
			g.Expect(err).NotTo(HaveOccurred(), name)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring("(requireTLS) requires TLS for clients and peers")), name)
		}
	}
	config := &configv1alpha1.OperatorConfiguration{RequireTLS: true, Backup: configv1alpha1.Backup{LocalClaims: []string{"*"}}}
	NewWithT(t).Expect(New(config)).To(Equal(Rules{TLS: true, LocalClaims: []string{"*"}}))
}

// Who may create an Etcd, but not read the Secret of its store, must not have what its credentials authorize sent elsewhere.
func TestOtherEndpoints(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{
		Provider: "gcp", Container: "bucket", SecretRef: &v1alpha1.SecretReference{Name: "s"}, EndpointOverride: ptr.To("https://storage.example.com"),
	}}
	g.Expect(Rules{}.Etcd(etcd)).To(MatchError(ContainSubstring("backup.allowedEndpoints")))
	g.Expect(Rules{Endpoints: []string{"https://storage.example.com.evil.org"}}.Etcd(etcd)).NotTo(Succeed())
	g.Expect(Rules{Endpoints: []string{"https://storage.example.com"}}.Etcd(etcd)).To(Succeed())
	etcd.Spec.Backup.Store.EndpointOverride = ptr.To("")
	g.Expect(Rules{}.Etcd(etcd)).To(Succeed())
}

// The operator connects to the endpoints of a source cluster from its own network, so a configuration may list those of each namespace.
func TestSources(t *testing.T) {
	const endpoint = "https://etcd-0.example.com:2379"
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	spec := &v1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{endpoint}}
	for allowed, want := range map[string]bool{
		"": false, "*": true, "ns/*": true, "n/*": false, "other/*": false, "ns/" + endpoint: true, "other/" + endpoint: false, endpoint: false, "ns/" + endpoint + "9": false, "ns/https://etcd-0.example.com": false,
	} {
		g := NewWithT(t)
		rules := New(&configv1alpha1.OperatorConfiguration{JoinSources: []string{allowed}})
		g.Expect(rules.Etcd(etcd)).To(Succeed(), allowed)
		recorded := etcd.DeepCopy()
		recorded.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: spec}
		joins := etcd.DeepCopy()
		joins.Spec.Etcd.BootstrapWithExistingCluster = spec
		for _, e := range []*v1alpha1.Etcd{joins, recorded} {
			if want {
				g.Expect(rules.Etcd(e)).To(Succeed(), allowed)
				g.Expect(rules.Elsewhere(e, endpoint)).To(Succeed(), allowed)
			} else {
				g.Expect(rules.Etcd(e)).To(MatchError(ContainSubstring("names client endpoint "+endpoint+", which the operator's configuration (joinSources) does not have")), allowed)
				g.Expect(rules.Elsewhere(e, endpoint)).NotTo(Succeed(), allowed)
			}
		}
	}
	g := NewWithT(t)
	both := etcd.DeepCopy()
	both.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{endpoint, "https://other:2379"}}
	g.Expect(Rules{Sources: []string{"ns/" + endpoint}}.Etcd(both)).NotTo(Succeed(), "each is dialed")

	// Members of its own are asked by name when the pods are not known, and those of a neighbor are not.
	for address, want := range map[string]bool{
		"https://main-0.main-peer.ns.svc:2379": true, "http://main-5.main-peer.ns.svc:2379": true, "http://main-6.main-peer.ns.svc:2379": false, "http://main-0.main-peer.other.svc:2379": false,
		"http://main-client.ns.svc:2379": false, "http://victim.other.svc:2379#main-0.main-peer.ns.svc": false, "http://main-0.main-peer.ns.svc@victim.other.svc:2379": false, "::": false,
	} {
		if err := (Rules{}).Elsewhere(etcd, address); want {
			g.Expect(err).NotTo(HaveOccurred(), address)
		} else {
			g.Expect(err).To(HaveOccurred(), address)
		}
	}
}

func TestCopies(t *testing.T) {
	own := inBucket("ns/main")
	aws := own
	aws.Provider = "aws"
	elsewhere := configv1alpha1.CopyStore{Provider: "GCS", Container: "archive", SecretName: "archive"}
	archive := v1alpha1.StoreSpec{Provider: "gcp", Container: "archive", Prefix: "ns/main", SecretRef: &v1alpha1.SecretReference{Name: "archive"}}
	with := func(s v1alpha1.StoreSpec, secret string) v1alpha1.StoreSpec {
		s.SecretRef = &v1alpha1.SecretReference{Name: secret}
		return s
	}
	neighbors := []v1alpha1.Etcd{etcdWith("events", ptr.To(inBucket(""))), etcdWith("bare", nil)}
	named := Rules{CopyStores: []configv1alpha1.CopyStore{elsewhere}}
	for name, c := range map[string]struct {
		rules          Rules
		source, target v1alpha1.StoreSpec
		says           string
	}{
		"within its bucket":                       {Rules{}, own, inBucket("ns/copy"), ""},
		"within its bucket, by the other name":    {Rules{}, aws, inBucket("ns/copy"), ""},
		"from another prefix into its own bucket": {Rules{}, inBucket("old/main"), inBucket("ns/copy"), ""},
		"to a store of the configuration":         {named, own, archive, ""},
		"from a store of the configuration":       {named, archive, inBucket("ns/copy"), ""},
		"to any store":                            {Rules{AnyCopyStore: true}, own, with(archive, "mine"), ""},
		"with the prefix of the namespace":        {Rules{NamespacePrefixes: true}, own, inBucket("ns/copy"), ""},

		"over its own backups":                 {named, archive, own, "live backups of Etcd main"},
		"over its own backups, any store":      {Rules{AnyCopyStore: true}, archive, own, "live backups of Etcd main"},
		"over its own backups, by another key": {Rules{AnyCopyStore: true}, archive, with(own, "other"), "live backups of Etcd main"},
		"beneath its own backups":              {Rules{}, own, inBucket("ns/main/v2"), "live backups of Etcd main"},
		"above its own backups":                {Rules{}, own, inBucket("ns"), "live backups of Etcd"},
		"over the backups of a neighbor":       {Rules{}, own, inBucket("ns/events"), "live backups of Etcd events"},
		"between two others":                   {Rules{AnyCopyStore: true}, archive, with(archive, "mine"), "one side of a copy"},
		"from another prefix of its bucket":    {named, inBucket("other/main"), archive, "one side of a copy"},
		"to a store that is not named":         {Rules{}, own, archive, "targetStore is named neither"},
		"from a store that is not named":       {Rules{}, archive, inBucket("ns/copy"), "sourceStore is named neither"},
		"to a named store, by another Secret":  {named, own, with(archive, "mine"), `Secret "mine"`},
		"from its bucket, by another Secret":   {named, with(own, "mine"), archive, "one side of a copy"},
		"with the prefix of another namespace": {Rules{NamespacePrefixes: true}, own, inBucket("other/copy"), `starts with "ns/"`},
		"from the prefix of another namespace": {Rules{NamespacePrefixes: true}, inBucket("other/main"), inBucket("ns/copy"), `starts with "ns/"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := etcdWith("main", &own)
			err := c.rules.Copy(&etcd, neighbors, c.source, c.target)
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			}
			g.Expect(neighbors).To(HaveLen(2))
		})
	}
	bare := etcdWith("bare", nil)
	NewWithT(t).Expect(Rules{AnyCopyStore: true}.Copy(&bare, nil, own, archive)).To(MatchError(ContainSubstring("has no spec.backup.store")))
}

// A Restore reads the container of the Etcd's own store, at a prefix where no retention removes.
func TestRestores(t *testing.T) {
	own := inBucket("ns/main")
	aws, other, endpoint := inBucket("ns/copy"), inBucket("ns/copy"), inBucket("ns/copy")
	aws.Provider = "aws"
	other.SecretRef = &v1alpha1.SecretReference{Name: "mine"}
	endpoint.EndpointOverride = ptr.To("https://elsewhere")
	archive := v1alpha1.StoreSpec{Provider: "gcp", Container: "archive", Prefix: "ns/copy", SecretRef: own.SecretRef}
	hostile := archive
	hostile.Container = "$(reboot)"
	stranger, volume := etcdWith("secret", ptr.To(inBucket("away/secret"))), etcdWith("volume", &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups", Prefix: "copy"})
	stranger.Namespace, volume.Namespace = "away", "away"
	neighbors := []v1alpha1.Etcd{etcdWith("events", ptr.To(inBucket(""))), etcdWith("bare", nil), stranger, volume}
	for name, c := range map[string]struct {
		rules Rules
		from  v1alpha1.StoreSpec
		says  string
	}{
		"another prefix":                       {Rules{}, inBucket("ns/copy"), ""},
		"by the provider's other name":         {Rules{}, aws, ""},
		"with the prefix of the namespace":     {Rules{NamespacePrefixes: true}, inBucket("ns/copy"), ""},
		"with the prefix of another namespace": {Rules{NamespacePrefixes: true}, inBucket("other/copy"), `starts with "ns/"`},
		"its own backups":                      {Rules{}, own, "from overlaps the live backups of Etcd main"},
		"beneath its own backups":              {Rules{}, inBucket("ns/main/v2"), "from overlaps the live backups of Etcd main"},
		"the backups of a neighbor":            {Rules{}, inBucket("ns/events"), "from overlaps the live backups of Etcd events"},
		"the backups of another namespace":     {Rules{}, inBucket("away/secret/v2"), "from overlaps the live backups of an Etcd of another namespace: choose another prefix"},
		"by another Secret":                    {Rules{AnyCopyStore: true}, other, `with Secret "mine", and members can only read the container of their own store`},
		"at another endpoint":                  {Rules{AnyCopyStore: true}, endpoint, "--source-secret s --source-endpoint https://elsewhere --target-provider"},
		"another container": {Rules{AnyCopyStore: true}, archive, "copy the backup there: kubectl etcdtask copy-backups main -n ns --wait " +
			"--source-provider gcp --source-container archive --source-prefix ns/copy --source-secret s " +
			"--target-provider S3 --target-container b --target-prefix ns/main-copy --target-secret s. Then restore from that prefix (from: {prefix: ns/main-copy})"},
		"a store of the configuration":  {Rules{CopyStores: []configv1alpha1.CopyStore{{Provider: "GCS", Container: "archive", SecretName: "s"}}}, archive, "copy the backup there: kubectl"},
		"a store that is not named":     {Rules{}, archive, "copy the backup there, once the administrator of the operator has added its store to backup.copyStores: kubectl"},
		"a name that a shell would run": {Rules{}, hostile, "backup.copyStores with a CopyBackups, under a prefix of its own. Then"},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := etcdWith("main", &own)
			err := c.rules.Restore(&etcd, neighbors, c.from)
			if c.says == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
			}
		})
	}
	local := etcdWith("main", &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups", Prefix: "main"})
	NewWithT(t).Expect(Rules{LocalClaims: []string{"*"}}.Restore(&local, neighbors, v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups", Prefix: "copy"})).
		To(Succeed(), "a claim of that name in another namespace is another one")
	bare := etcdWith("bare", nil)
	NewWithT(t).Expect(Rules{}.Restore(&bare, nil, own)).To(MatchError(ContainSubstring("has no spec.backup.store")))
}

// Without an Etcd, a copy may use every store by a Secret of its namespace, within what the configuration allows of all stores.
func TestCopiesWithoutEtcd(t *testing.T) {
	g := NewWithT(t)
	secret := &v1alpha1.SecretReference{Name: "any"}
	from := v1alpha1.StoreSpec{Provider: "aws", Container: "old", Prefix: "ns/main", SecretRef: secret}
	to := v1alpha1.StoreSpec{Provider: "gcp", Container: "new", Prefix: "ns/main", SecretRef: secret}
	live := v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	live.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "GCS", Container: "new", SecretRef: &v1alpha1.SecretReference{Name: "other"}}}
	g.Expect(Rules{}.CopyWithoutEtcd("ns", nil, from, to)).To(Succeed())
	g.Expect(Rules{}.CopyWithoutEtcd("ns", []v1alpha1.Etcd{live}, from, to)).To(MatchError(ContainSubstring("live backups of Etcd main")), "whichever Secret leads there")
	g.Expect(Rules{}.CopyWithoutEtcd("ns", []v1alpha1.Etcd{live}, to, from)).To(Succeed(), "it is only read")
	g.Expect(Rules{NamespacePrefixes: true}.CopyWithoutEtcd("other", nil, from, to)).To(MatchError(ContainSubstring("prefix of sourceStore")))
	anonymous, redirected := to, to
	anonymous.SecretRef, redirected.EndpointOverride = nil, ptr.To("https://elsewhere")
	g.Expect(Rules{}.CopyWithoutEtcd("ns", nil, from, anonymous)).To(MatchError(ContainSubstring("targetStore has no secretRef")))
	g.Expect(Rules{CloudIdentity: true}.CopyWithoutEtcd("ns", nil, from, anonymous)).To(Succeed())
	g.Expect(Rules{}.CopyWithoutEtcd("ns", nil, redirected, from)).To(MatchError(ContainSubstring("endpointOverride of sourceStore")))
}

// Of Etcds with the same backups, the oldest has them.
func TestEtcdsWithTheSameBackups(t *testing.T) {
	at := func(name, prefix string, second int64, change ...func(*v1alpha1.Etcd)) v1alpha1.Etcd {
		e := etcdWith(name, ptr.To(inBucket(prefix)))
		e.CreationTimestamp = metav1.Unix(second, 0)
		for _, c := range change {
			c(&e)
		}
		return e
	}
	store := func(set func(*v1alpha1.StoreSpec)) func(*v1alpha1.Etcd) {
		return func(e *v1alpha1.Etcd) { set(e.Spec.Backup.Store) }
	}
	own := at("main", "ns/main", 10)
	for name, c := range map[string]struct {
		other v1alpha1.Etcd
		same  bool
	}{
		"itself":                   {own, false},
		"an older one":             {at("other", "ns/main", 9), true},
		"above":                    {at("other", "ns", 9), true},
		"beneath":                  {at("other", "ns/main/v2", 9), true},
		"beside":                   {at("other", "ns/main2", 9), false},
		"a newer one":              {at("a", "ns/main", 11), false},
		"at once, the first name":  {at("a", "ns/main", 10), true},
		"at once, the second name": {at("z", "ns/main", 10), false},
		"in another namespace":     {at("other", "ns/main", 9, func(e *v1alpha1.Etcd) { e.Namespace = "away" }), false},
		"without backups":          {at("other", "ns/main", 9, func(e *v1alpha1.Etcd) { e.Spec.Backup = nil }), false},
		"in another container":     {at("other", "ns/main", 9, store(func(s *v1alpha1.StoreSpec) { s.Container = "another" })), false},
		"by another Secret":        {at("other", "ns/main", 9, store(func(s *v1alpha1.StoreSpec) { s.SecretRef = &v1alpha1.SecretReference{Name: "another"} })), false},
	} {
		err := Rules{}.Beside(&own, []v1alpha1.Etcd{at("far", "ns/far", 1), c.other})
		if c.same {
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("Etcd "+c.other.Name+", which is older")), name)
		} else {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), name)
		}
	}
	bare := etcdWith("bare", nil)
	NewWithT(t).Expect(Rules{}.Beside(&bare, []v1alpha1.Etcd{own})).To(Succeed())
}
