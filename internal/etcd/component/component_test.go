// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func input(replicas int32) Input {
	return Input{
		Etcd: &v1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: "4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f"},
			Spec:       v1alpha1.EtcdSpec{Replicas: replicas},
		},
		Images:    configv1alpha1.Images{Etcd: "example.com/etcd:v3.6.8", EtcdAgent: "example.com/etcd-agent:v1"},
		Replicas:  replicas,
		Capacity:  resource.MustParse(v1alpha1.DefaultStorageCapacity),
		Retention: v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesRetained, WhenScaled: v1alpha1.VolumesRetained},
		Strategy:  appsv1.OnDeleteStatefulSetStrategyType,
	}
}

// everything sets every field of an Etcd but those of TLS and backups, which are set by withTLS and withBackup.
func everything() Input {
	in := input(5)
	in.Strategy = appsv1.RollingUpdateStatefulSetStrategyType
	in.Capacity, in.Class = resource.MustParse("80Gi"), "fast"
	in.Retention.WhenDeleted = v1alpha1.VolumesDeleted
	in.Etcd.Annotations = map[string]string{v1alpha1.AnnotationAllowUnhealthyPodEviction: "true"}
	in.Etcd.Spec = v1alpha1.EtcdSpec{
		Replicas: 5,
		// These have no effect, or are refused by the API server.
		Selector:                         &metav1.LabelSelector{MatchLabels: map[string]string{"team": "storage"}},
		ExternallyManagedMemberAddresses: []string{"10.0.0.1"},
		RunAsRoot:                        ptr.To(true),
		Labels:                           map[string]string{"team": "storage", v1alpha1.LabelPartOf: "mine"},
		Annotations: map[string]string{
			"example.com/note":             "kept",
			v1alpha1.AnnotationSafeToEvict: "true",
		},
		Etcd: v1alpha1.EtcdConfig{
			Image:         ptr.To("example.com/other:v3.5.21"),
			Resources:     &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}},
			Quota:         ptr.To(resource.MustParse("4Gi")),
			SnapshotCount: ptr.To[int64](5000),
			Metrics:       ptr.To(v1alpha1.MetricsExtensive),
			ClientPort:    ptr.To[int32](12379),
			ServerPort:    ptr.To[int32](12380),
			WrapperPort:   ptr.To[int32](19095),
			ClientService: &v1alpha1.ClientService{
				Labels:              map[string]string{"team": "storage", v1alpha1.LabelPartOf: "mine"},
				Annotations:         map[string]string{"service.kubernetes.io/topology-mode": "auto"},
				TrafficDistribution: ptr.To(v1alpha1.TrafficDistribution("PreferClose")),
			},
			BackendBboltFreelistType:     ptr.To(v1alpha1.FreelistType("array")),
			EnableGRPCGateway:            ptr.To(true),
			AuthSecretRef:                &v1alpha1.OptionalSecretReference{Name: "auth", Namespace: "shoot-a"},
			AdditionalAdvertisePeerURLs:  []v1alpha1.MemberPeerURLs{{MemberName: "etcd-main-0", URLs: []string{"http://10.0.0.1:2380"}}},
			AdditionalAdvertisedURLs:     &v1alpha1.AdditionalAdvertisedURLs{ClientURLs: further("blue-etcd-main-0", false), PeerURLs: further("blue-etcd-main-1", true)},
			BootstrapWithExistingCluster: &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "other", PeerURLs: []string{"http://10.0.0.1:2380"}}}, ClientEndpoints: []string{"http://10.0.0.1:2379"}},
			HeartbeatDuration:            &metav1.Duration{Duration: 5 * time.Second},
			DefragmentationSchedule:      ptr.To("0 3 * * *"),
			EtcdDefragTimeout:            &metav1.Duration{Duration: 10 * time.Minute},
		},
		SharedConfig: &v1alpha1.SharedConfig{
			AutoCompactionMode:      ptr.To(v1alpha1.CompactionRevision),
			AutoCompactionRetention: ptr.To("1000"),
		},
		SchedulingConstraints: v1alpha1.SchedulingConstraints{
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"etcd"}}}}},
			}}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
		},
		MemberNamePrefix:    ptr.To("blue"),
		PriorityClassName:   ptr.To("etcd"),
		StorageCapacity:     ptr.To(resource.MustParse("80Gi")),
		StorageClass:        ptr.To("fast"),
		VolumeClaimTemplate: ptr.To("data"),
	}
	// Without the prefix, it is the name of a member.
	in.Etcd.Spec.Etcd.AdditionalAdvertisedURLs.ClientURLs.Members = append(in.Etcd.Spec.Etcd.AdditionalAdvertisedURLs.ClientURLs.Members, further("etcd-main-0", false).Members...)
	in.Etcd.Spec.PodUpdatePolicy, in.Etcd.Spec.SurgePolicy = v1alpha1.InPlaceIfPossible, v1alpha1.SurgeSingleMember
	in.Etcd.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesDeleted, WhenScaled: v1alpha1.VolumesRetained}
	return in
}

// withTLS asks for TLS for clients and among members, and is at a station of the way to the latter.
func withTLS(station PeerTLS) Input {
	in := input(3)
	in.PeerTLS, in.Authorities = station, "0123456789abcdef"
	ca := v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "ca"}, DataKey: ptr.To("bundle.crt")}
	in.Etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{
		TLSCASecretRef: ca, ServerTLSSecretRef: v1alpha1.SecretReference{Name: "server"}, ClientTLSSecretRef: v1alpha1.SecretReference{Name: "client"},
	}
	in.Etcd.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{TLSCASecretRef: ca, ServerTLSSecretRef: v1alpha1.SecretReference{Name: "peer"}, ClientTLSSecretRef: &v1alpha1.OptionalSecretReference{Name: "unused", Namespace: "shoot-a"}, SkipClientSANVerification: ptr.To(true)}
	return in
}

// withManagedTLS asks for managed TLS.
func withManagedTLS() Input {
	in := input(3)
	in.PeerTLS, in.Authorities = PeerTLSOn, "0123456789abcdef"
	hour := &metav1.Duration{Duration: time.Hour}
	in.Etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{
		Connections: v1alpha1.TLSConnections(), ServerDNSNames: []string{"etcd.example.com"},
		Duration: hour, RenewBefore: hour, CADuration: hour, CARenewBefore: hour,
		IssuerRef:     &v1alpha1.IssuerReference{Name: "clients", Kind: v1alpha1.KindIssuer, Group: v1alpha1.GroupCertManager},
		PeerIssuerRef: &v1alpha1.IssuerReference{Name: "peers", Kind: v1alpha1.KindIssuer, Group: v1alpha1.GroupCertManager},
	}
	return in
}

// withBackup is an Etcd with a store.
func withBackup() Input {
	in := input(3)
	in.Etcd.Spec.Backup = &v1alpha1.BackupSpec{
		Image:     ptr.To("example.com/etcd-agent:v2"),
		Port:      ptr.To[int32](18080),
		Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}},
		TLS: &v1alpha1.BackupTLS{
			TLSCASecretRef:     v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "agent-ca"}, DataKey: ptr.To("bundle.crt")},
			ServerTLSSecretRef: v1alpha1.SecretReference{Name: "agent"},
			ClientTLSSecretRef: &v1alpha1.OptionalSecretReference{Name: "unused", Namespace: "shoot-a"},
		},
		Store: &v1alpha1.StoreSpec{
			Provider: v1alpha1.ProviderS3, Container: "bucket", Prefix: "clusters/main", SecretRef: &v1alpha1.SecretReference{Name: "bucket-credentials"},
			EndpointOverride: ptr.To("https://s3.example.com"),
		},
		LeaderElection:  &v1alpha1.LeaderElectionSpec{ReelectionPeriod: &metav1.Duration{Duration: time.Second}, EtcdConnectionTimeout: &metav1.Duration{Duration: time.Minute}},
		EnableProfiling: ptr.To(true),
		Signing: &v1alpha1.SigningSpec{
			SecretRef:           v1alpha1.SecretReference{Name: "snapshot-signing"},
			AcceptUnsignedUntil: &metav1.Time{Time: time.Date(2026, 7, 1, 14, 0, 0, 0, time.FixedZone("", 7200))},
			AcceptRevision:      ptr.To[int64](1234),
		},
		Encryption: &v1alpha1.EncryptionSpec{
			Recipients:        []v1alpha1.Recipient{"age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"},
			IdentitySecretRef: &v1alpha1.SecretReference{Name: "snapshot-identities"},
			AcceptPlainUntil:  &metav1.Time{Time: time.Date(2026, 7, 1, 15, 0, 0, 0, time.FixedZone("", 7200))},
		},
		FullSnapshotSchedule:         ptr.To("0 1 * * *"),
		DeltaSnapshotPeriod:          &metav1.Duration{Duration: time.Minute},
		DeltaSnapshotMemoryLimit:     ptr.To(resource.MustParse("1Mi")),
		DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 24 * time.Hour},
		GarbageCollectionPolicy:      ptr.To(v1alpha1.GarbageCollectionLimitBased),
		GarbageCollectionPeriod:      &metav1.Duration{Duration: 30 * time.Minute},
		MaxBackupsLimitBasedGC:       ptr.To[int32](9),
		SnapshotCompression:          &v1alpha1.CompressionSpec{Enabled: ptr.To(true), Policy: ptr.To(v1alpha1.CompressionZlib)},
		EtcdSnapshotTimeout:          &metav1.Duration{Duration: 20 * time.Minute},
		SnapshotCompaction: &v1alpha1.SnapshotCompactionSpec{
			Resources:                    &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}},
			EventsThreshold:              ptr.To[int64](500_000),
			TriggerFullSnapshotThreshold: ptr.To[int64](1_000_000),
		},
	}
	return in
}

// withDefaultBackup is an Etcd with a store of which nothing else is said.
func withDefaultBackup() Input {
	in := withBackup()
	in.Etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: in.Etcd.Spec.Backup.Store}
	in.Etcd.Spec.Backup.Store.Prefix = ""
	return in
}

// A field that is in the schema does something: it is set in one of the golden files.
func TestEveryFieldIsInAGoldenFile(t *testing.T) {
	set := map[string]bool{}
	for _, in := range []Input{everything(), withTLS(PeerTLSOn), withManagedTLS(), withBackup()} {
		fields(reflect.ValueOf(in.Etcd.Spec), "spec", set)
	}
	for field, isSet := range set {
		if strings.HasSuffix(field, ".namespace") {
			// It can only be that of the Etcd.
			continue
		}
		if !isSet {
			t.Errorf("%s is set in none", field)
		}
	}
	if len(set) < 50 {
		t.Errorf("only %d fields were found", len(set))
	}
}

// fields finds the fields of a value of our own types, and whether they are set.
func fields(v reflect.Value, path string, set map[string]bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != reflect.TypeFor[v1alpha1.Etcd]().PkgPath() {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := path
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			name += "." + tag
		}
		set[name] = set[name] || !v.Field(i).IsZero()
		fields(v.Field(i), name, set)
	}
}

func TestObjects(t *testing.T) {
	for name, in := range map[string]Input{"tls": withTLS(PeerTLSOn), "backup": withBackup(), "backup-default": withDefaultBackup(), "tls-prepared": withTLS(PeerTLSPrepared), "default": input(3), "single": input(1), "asleep": input(0), "everything": everything(), "tls-managed": withManagedTLS()} {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects(in)
			if err != nil {
				t.Fatal(err)
			}
			var documents [][]byte
			for _, object := range objects {
				document, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, document)
			}
			golden.Check(t, name+".yaml", bytes.Join(documents, []byte("---\n")))
		})
	}
}

// Pods comply with the Pod Security Standard restricted, whatever the annotations of an Etcd.
func TestAppArmorStaysOn(t *testing.T) {
	g := NewWithT(t)
	in := input(3)
	const etcd, agent = "container.apparmor.security.beta.kubernetes.io/etcd", "container.apparmor.security.beta.kubernetes.io/backup-restore"
	in.Etcd.Spec.Annotations = map[string]string{etcd: "unconfined", agent: "localhost/mine", "note": "unconfined"}
	pod, err := podTemplate(in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Annotations).To(And(Not(HaveKey(etcd)), HaveKeyWithValue(agent, "localhost/mine"), HaveKeyWithValue("note", "unconfined")))
	g.Expect(in.Etcd.Spec.Annotations).To(HaveKey(etcd), "the Etcd itself is unchanged")
}

// What restricts TLS replaces pods only where the operator's configuration asks for it, and where there is TLS.
func TestLimitsOfTLSReachMembersOnRequest(t *testing.T) {
	g := NewWithT(t)
	config := func(in Input) map[string]any {
		text, err := sharedConfig(in)
		g.Expect(err).NotTo(HaveOccurred())
		var values map[string]any
		g.Expect(yaml.Unmarshal([]byte(text), &values)).To(Succeed())
		return values
	}
	suites := []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}
	for _, limits := range []configv1alpha1.TLS{{MinVersion: configv1alpha1.VersionTLS13}, {CipherSuites: suites}, {MinVersion: configv1alpha1.VersionTLS12, ApplyToMembers: true}} {
		in := withTLS(PeerTLSOn)
		in.TLS = limits
		g.Expect(config(in)).To(Equal(config(withTLS(PeerTLSOn))), "%v", limits)
	}
	in := withTLS(PeerTLSOn)
	in.TLS = configv1alpha1.TLS{MinVersion: configv1alpha1.VersionTLS13, ApplyToMembers: true}
	g.Expect(config(in)).To(And(HaveKeyWithValue("tls-min-version", "TLS1.3"), Not(HaveKey("cipher-suites"))))
	in.TLS = configv1alpha1.TLS{CipherSuites: suites, ApplyToMembers: true}
	g.Expect(config(in)).To(And(HaveKeyWithValue("cipher-suites", ConsistOf(suites[0])), Not(HaveKey("tls-min-version"))))

	plain := input(3)
	plain.TLS = in.TLS
	g.Expect(config(plain)).To(Equal(config(input(3))))
}

// What is applied is what the member's own pod reads.
func TestMembersUnderstandTheirConfigMap(t *testing.T) {
	g := NewWithT(t)
	config, err := ConfigMap(everything())
	g.Expect(err).NotTo(HaveOccurred())
	shared, err := member.ParseShared(config.Data)
	g.Expect(err).NotTo(HaveOccurred())
	id, err := shared.Identify("blue-etcd-main-4")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.PeerURL).To(Equal("http://etcd-main-4.etcd-main-peer.shoot-a.svc:12380"))
	g.Expect(id.ClientURL).To(Equal("http://etcd-main-4.etcd-main-peer.shoot-a.svc:12379"))
	g.Expect(id.PeerClientURLs).To(HaveLen(4))
	g.Expect(shared.DataDir()).To(Equal(member.DataDir))
}

// further gives a member two further URLs.
func further(member string, override bool) *v1alpha1.AdvertisedURLs {
	return &v1alpha1.AdvertisedURLs{OverrideDefaultURL: ptr.To(override), Members: []v1alpha1.MemberURLs{{Name: member, URLs: []string{"http://10.0.0.1:1", "http://a"}}}}
}

// A member publishes its further client URLs after its own, or in place of it; also with a prefix of its name. The others publish
// their own. What a new cluster begins with, and its ID, does not depend on further URLs.
func TestFurtherURLs(t *testing.T) {
	for name, c := range map[string]struct {
		prefix   *string
		override bool
		want     string
	}{
		"after its own":       {nil, false, "http://etcd-main-0.etcd-main-peer.shoot-a.svc:2379,http://10.0.0.1:1,http://a:80"},
		"in place of its own": {nil, true, "http://10.0.0.1:1,http://a:80"},
		"with a prefix":       {ptr.To("seed"), true, "http://10.0.0.1:1,http://a:80"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := input(3)
			in.Etcd.Spec.MemberNamePrefix = c.prefix
			before, err := ConfigMap(in)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(before.Data).NotTo(HaveKey(member.KeyClientURLs))
			first := in.Etcd.MemberName("etcd-main-0")
			in.Etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{ClientURLs: further(first, c.override), PeerURLs: further(first, c.override)}
			config, err := ConfigMap(in)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Data[member.KeyBootstrap]).To(Equal(before.Data[member.KeyBootstrap]))
			shared, err := member.ParseShared(config.Data)
			g.Expect(err).NotTo(HaveOccurred())
			for name, want := range map[string]string{first: c.want, in.Etcd.MemberName("etcd-main-1"): "http://etcd-main-1.etcd-main-peer.shoot-a.svc:2379"} {
				id, err := shared.Identify(name)
				g.Expect(err).NotTo(HaveOccurred())
				file, err := shared.Render(id, member.Start, "")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(file)).To(ContainSubstring("advertise-client-urls: " + want + "\n"))
			}
		})
	}
}

// A pod is replaced when its template changes. So a change of configuration has to be a change of template,
// and whatever does not concern a running member must not be.
func TestWhatReplacesPods(t *testing.T) {
	template := func(change func(*Input)) string {
		in := input(3)
		change(&in)
		set, err := statefulSet(in)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.Marshal(set.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := template(func(*Input) {})
	for _, tc := range []struct {
		name     string
		change   func(*Input)
		replaces bool
	}{
		{"configuration", func(in *Input) { in.Etcd.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) }, true},
		{"image", func(in *Input) { in.Images.Etcd = "example.com/etcd:v3.6.9" }, true},
		{"label", func(in *Input) { in.Etcd.Spec.Labels = map[string]string{"a": "b"} }, true},
		{"update strategy", func(in *Input) { in.Strategy = appsv1.RollingUpdateStatefulSetStrategyType }, false},
		{"hibernation", func(in *Input) { in.Replicas = 0 }, false},
		{"cluster ID", func(in *Input) { in.Etcd.Status.ClusterID = "cafe" }, false},
		{"another Etcd of the same name", func(in *Input) { in.Etcd.UID = "other" }, false},
		{"further peer URLs", func(in *Input) {
			in.Etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{PeerURLs: further("etcd-main-0", false)}
		}, false},
		{"further client URLs", func(in *Input) {
			in.Etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{ClientURLs: further("etcd-main-0", false)}
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := template(tc.change) != before; got != tc.replaces {
				t.Errorf("replaces pods: %v, want %v", got, tc.replaces)
			}
		})
	}
}

func TestUsersMapsAreNotChanged(t *testing.T) {
	in := everything()
	before := in.Etcd.DeepCopy()
	if _, err := Objects(in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, in.Etcd); diff != "" {
		t.Errorf("building the objects changed the Etcd (-before +after):\n%s", diff)
	}
}

// The budget of a single member allows every eviction, unless a second member takes over on a drain: then it allows none of a pod that is
// ready, also while there are two.
func TestBudgetOfASingleMember(t *testing.T) {
	for policy, blocks := range map[v1alpha1.SurgePolicy]bool{"": false, v1alpha1.SurgeSingleMember: false, v1alpha1.SurgeSingleMemberAndDrains: true} {
		for _, replicas := range []int32{1, 2} {
			in := input(replicas)
			in.Etcd.Spec.Replicas, in.Etcd.Spec.SurgePolicy = 1, policy
			spec := podDisruptionBudget(in).Spec
			switch {
			case !blocks && (spec.MaxUnavailable != nil || spec.MinAvailable.IntValue() != int(2*(replicas-1)) || spec.UnhealthyPodEvictionPolicy != nil):
				t.Errorf("%q with %d: %+v", policy, replicas, spec)
			case blocks && (spec.MinAvailable != nil || spec.MaxUnavailable.IntValue() != 0 || *spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow):
				t.Errorf("%q with %d: %+v", policy, replicas, spec)
			}
		}
	}
	in := input(3)
	in.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMemberAndDrains
	if spec := podDisruptionBudget(in).Spec; spec.MinAvailable.IntValue() != 2 || spec.MaxUnavailable != nil {
		t.Errorf("three members: %+v", spec)
	}
}

// The agents of both members may renew their Leases before there is a second one: nothing else is applied when it comes.
func TestRoleOfTheSecondMember(t *testing.T) {
	in := input(1)
	in.Etcd.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
	in.Members = in.Etcd.MostMembers()
	second := in.Etcd.MemberName(in.Etcd.PodName(1))
	if names := role(in).Rules[0].ResourceNames; !slices.Contains(names, second) {
		t.Errorf("%s is not among %v", second, names)
	}
	if hosts := in.Etcd.MemberHosts(); len(hosts) != 2 {
		t.Errorf("certificates are for %v", hosts)
	}
	in.Etcd.Spec.SurgePolicy = v1alpha1.SurgeNever
	in.Members = in.Etcd.MostMembers()
	if names := role(in).Rules[0].ResourceNames; slices.Contains(names, second) {
		t.Errorf("%s is among %v", second, names)
	}
}

// A recovery that begins while the cluster is stopped reads of which members the one before has made it.
func TestAStoppedClusterNamesItsMembers(t *testing.T) {
	in := input(0)
	in.Etcd.Spec.Replicas, in.Etcd.Status.ClusterSize = 0, 3
	text, err := Bootstrap(in.Etcd, in.Replicas, in.PeerTLS)
	if err != nil || strings.Count(text, "=") != 3 {
		t.Errorf("%s, %v", text, err)
	}
}
