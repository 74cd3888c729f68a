// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// adoptable is the input of an Etcd of three members with etcd 3.5.27, as etcd-druid has left it.
func adoptable() input {
	f := input{
		etcd:     &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "etcd-main", UID: "uid"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}},
		snapshot: clustertest.Healthy(3), onDelete: true, enabled: true, now: noon,
		images: map[string]string{v1alpha1.ContainerEtcd: "registry:5000/etcd:v3.6.16@sha256:0", v1alpha1.ContainerBackupRestore: "agent:v1"},
	}
	f.snapshot.StatefulSet.OfDruid = true
	for i := range f.snapshot.Ordinals {
		f.snapshot.Ordinals[i].Versions.Etcd = "3.5.27"
	}
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "etcd-main"}
	f.set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Labels: labels}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(3)), ServiceName: "etcd-main-peer", PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector:             &metav1.LabelSelector{MatchLabels: labels},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main"}}},
	}}
	f.set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "etcd-wrapper:v0.7.0"}, {Name: "backup-restore", Image: "etcdbrctl:v0.40.0"}}
	return f
}

// wrote is a write of a field manager.
func wrote(manager string, ago time.Duration) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &metav1.Time{Time: noon.Add(-ago)}}
}

func TestRefuseAdoption(t *testing.T) {
	versionOf := func(f *input, i int, v string) { f.snapshot.Ordinals[i].Versions.Etcd = v }
	for name, c := range map[string]struct {
		change func(*input)
		says   string
	}{
		"as etcd-druid has left it": {func(*input) {}, ""},
		"no StatefulSet":            {func(f *input) { f.set = nil }, "there is nothing to adopt"},
		"the operator's own":        {func(f *input) { f.set.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy} }, "the operator's own"},
		"adoption is off":           {func(f *input) { f.enabled = false }, "AdoptFromDruid is off"},
		"the gate is off":           {func(f *input) { f.onDelete = false }, "QuorumAwareUpdatesWithOnDelete is off"},
		"a foreign Service": {func(f *input) {
			f.foreign = []ownership.Foreign{{Kind: "Service", Name: "shoot/etcd-main-client", Whose: "has no controller", Remedy: "delete it"}}
		}, "Service shoot/etcd-main-client has no controller"},
		"is being deleted": {func(f *input) { f.set.DeletionTimestamp = &metav1.Time{Time: noon} }, "is being deleted"},
		"etcd-druid writes its status": {func(f *input) {
			f.etcd.ManagedFields = append(f.etcd.ManagedFields, wrote("etcd-druid", 20*time.Second))
		}, "etcd-druid is running: it wrote at 2026-11-23T11:59:40Z. Scale"},
		"its clock is ahead":        {func(f *input) { f.set.ManagedFields = append(f.set.ManagedFields, wrote("etcd-druid", -time.Hour)) }, "etcd-druid is running"},
		"etcd-druid wrote long ago": {func(f *input) { f.set.ManagedFields = append(f.set.ManagedFields, wrote("etcd-druid", 2*time.Minute)) }, ""},
		"another writes":            {func(f *input) { f.etcd.ManagedFields = append(f.etcd.ManagedFields, wrote("gardenlet", time.Second)) }, ""},
		"another selector": {func(f *input) {
			f.set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"instance": "etcd-main"}}
		}, "spec.selector of StatefulSet etcd-main"},
		"a narrower selector":    {func(f *input) { f.set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a"}} }, "spec.selector"},
		"another peer Service":   {func(f *input) { f.set.Spec.ServiceName = "other" }, "spec.serviceName"},
		"ordered pods":           {func(f *input) { f.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }, "spec.podManagementPolicy"},
		"another claim template": {func(f *input) { f.set.Spec.VolumeClaimTemplates[0].Name = "main-etcd" }, "spec.volumeClaimTemplates"},
		"its claim template has another name": {func(f *input) {
			f.set.Spec.VolumeClaimTemplates[0].Name, f.etcd.Spec.VolumeClaimTemplate = "main-etcd", ptr.To("main-etcd")
		}, ""},
		"hibernated":                  {func(f *input) { f.set.Spec.Replicas, f.etcd.Spec.Replicas = ptr.To(int32(0)), 0 }, "has no replicas"},
		"another size":                {func(f *input) { f.etcd.Spec.Replicas = 5 }, "has 3 replicas, and the Etcd asks for 5"},
		"not observed":                {func(f *input) { f.snapshot = nil }, "could not be observed"},
		"a spec that is not seen yet": {func(f *input) { f.snapshot.StatefulSet.Observed = false }, "could not be observed"},
		"in the middle of a rollout":  {func(f *input) { f.snapshot.Ordinals[1].Pod.Revision = "old" }, "1 of 3 pods are not at the newest template"},
		"again, in the middle of the conversion": {func(f *input) {
			f.set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
			f.set.Annotations = map[string]string{v1alpha1.AnnotationAdoptedBy: "uid"}
			f.snapshot.Ordinals[1].Pod.Revision = "old"
		}, ""},
		"a pod is missing": {func(f *input) { clustertest.Away(f.snapshot, 1, v1alpha1.ClassMissing, "") }, "1 of 3 pods are not"},
		"a member is down": {func(f *input) { clustertest.Away(f.snapshot, 2, v1alpha1.ClassDead, "exited") }, "etcd-main-2 is"},
		"a foreign voter": {func(f *input) {
			f.snapshot.Cluster.Voters = append(f.snapshot.Cluster.Voters, cluster.Voter{ID: 9, Name: "other", Ordinal: -1, Serving: true})
		}, "voter other is not a member"},
		"a learner":                         {func(f *input) { f.snapshot.Cluster.Voters = f.snapshot.Cluster.Voters[:2] }, "2 of 3 members are voters"},
		"the spec names etcd-druid's image": {func(f *input) { f.images[v1alpha1.ContainerEtcd] = "etcd-wrapper:v0.7.0" }, "spec.etcd.image is the image of etcd-druid"},
		"the spec names etcdbr's image":     {func(f *input) { f.images[v1alpha1.ContainerBackupRestore] = "etcdbrctl:v0.40.0" }, "spec.backup.image is the image of etcd-druid"},
		"the pods are the operator's, handed back": {func(f *input) {
			f.snapshot.StatefulSet.OfDruid = false
			f.images[v1alpha1.ContainerEtcd], f.images[v1alpha1.ContainerBackupRestore] = "registry/etcd:v3.6.16", "agent:v1"
			f.set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "etcd", Image: "registry/etcd:v3.6.16"}, {Name: "backup-restore", Image: "agent:v1"}}
		}, ""},
		"peer TLS is being switched on":      {func(f *input) { f.etcd.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{} }, "spec.etcd.peerUrlTls"},
		"peer TLS of the pods alone":         {func(f *input) { f.peerTLS = true }, "spec.etcd.peerUrlTls"},
		"client TLS of a pod alone":          {func(f *input) { f.snapshot.Ordinals[1].Pod.Endpoint = "https://10.0.0.1:2379" }, "spec.etcd.clientUrlTls and etcd-main-1"},
		"etcd 3.4":                           {func(f *input) { versionOf(f, 1, "3.4.34") }, "etcd-main-1 runs etcd 3.4.34, and the operator runs 3.5.11 and newer: let etcd-druid upgrade it first"},
		"an early 3.5":                       {func(f *input) { versionOf(f, 1, "3.5.10"); f.images[v1alpha1.ContainerEtcd] = "etcd:v3.5.27" }, "runs 3.5.11 and newer"},
		"the earliest 3.5":                   {func(f *input) { versionOf(f, 1, "3.5.11"); f.images[v1alpha1.ContainerEtcd] = "etcd:v3.5.27" }, ""},
		"a 3.5 that does not upgrade safely": {func(f *input) { versionOf(f, 2, "3.5.21") }, "takes at least 3.5.26 before it"},
		"two minor versions":                 {func(f *input) { f.images[v1alpha1.ContainerEtcd] = "etcd:v3.7.1" }, "etcd upgrades one minor version at a time"},
		"an older etcd":                      {func(f *input) { f.images[v1alpha1.ContainerEtcd] = "etcd:v3.4.34" }, "a member of 3.4 would refuse to start"},
		"an image without a tag":             {func(f *input) { f.images[v1alpha1.ContainerEtcd] = "etcd@sha256:0" }, "the version of etcd in image"},
		"a member does not say its version":  {func(f *input) { versionOf(f, 0, "") }, "etcd-main-0 does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := adoptable()
			c.change(&f)
			if said := refuseAdoption(f); c.says == "" {
				g.Expect(said).To(BeEmpty())
			} else {
				g.Expect(said).To(And(ContainSubstring(c.says), Not(HaveSuffix("."))))
			}
		})
	}
}

// Members that run a newer etcd than etcd-druid did are not handed back: its pods could not start with their data. Nor are those with what
// etcd-druid does not know and its pods cannot do without.
func TestRefuseReturn(t *testing.T) {
	running := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "rollout"}, Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress}}
	for name, c := range map[string]struct {
		adopted, storage string
		tasks            []v1alpha1.EtcdOperatorTask
		change           func(*input)
		says             string
	}{
		"the same version":             {"3.5.27", "", nil, nil, ""},
		"upgraded":                     {"3.5.27", "3.6.0", nil, nil, "the cluster is at etcd 3.6, and etcd-druid ran 3.5.27: downgrade it first"},
		"downgraded again":             {"3.5.27", "3.5.0", nil, nil, ""},
		"etcd-druid ran it":            {"3.6.16", "3.6.0", nil, nil, ""},
		"a task is running":            {"3.5.27", "", []v1alpha1.EtcdOperatorTask{running}, nil, "task rollout is running"},
		"in the middle of a rollout":   {"3.5.27", "", nil, func(f *input) { f.snapshot.Ordinals[1].Pod.Revision = "old" }, "1 of 3 pods"},
		"a member is down":             {"3.5.27", "", nil, func(f *input) { clustertest.Away(f.snapshot, 2, v1alpha1.ClassDead, "exited") }, "etcd-main-2 is"},
		"the version was not recorded": {"", "3.6.0", nil, nil, ""},
		"managed TLS": {"3.5.27", "", nil, func(f *input) { f.etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{} },
			"etcd-druid does not know spec.managedTLS, and would start members without TLS"},
		"managed TLS of peers": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{Connections: []v1alpha1.TLSConnection{v1alpha1.TLSPeers}}
		}, "create an Etcd for etcd-druid under another name"},
		"managed TLS of agents": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{Connections: []v1alpha1.TLSConnection{v1alpha1.TLSAgents}}
		}, "name Secrets of your own in spec.backup.tls, and remove spec.managedTLS"},
		"encrypted backups": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: "S3"}, Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1"}}}
		}, "take a full snapshot (kubectl etcdtask snapshot etcd-main -n shoot --type full --wait)"},
		"managed TLS that was never applied": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Spec.ManagedTLS, f.set.Annotations[v1alpha1.AnnotationAdoptedBy] = &v1alpha1.ManagedTLS{}, "uid"
			f.set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
		}, ""},
		"a spec that is not applied yet, such as without encryption": {"3.5.27", "", nil, func(f *input) { f.etcd.Generation, f.etcd.Status.ObservedGeneration = 2, 1 },
			"the spec has yet to be applied: its generation is 2, and status.observedGeneration is 1"},
		"a spec that is not applied while etcd-druid is back": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Generation, f.etcd.Status.ObservedGeneration, f.etcd.Finalizers = 2, 1, []string{v1alpha1.FinalizerDruid}
		}, "scale etcd-druid to 0"},
		"a spec that is suspended": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Generation, f.etcd.Status.ObservedGeneration, f.etcd.Annotations = 2, 1, map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
		}, "while its reconciliation is suspended"},
		"a spec that was applied": {"3.5.27", "", nil, func(f *input) { f.etcd.Generation, f.etcd.Status.ObservedGeneration = 2, 2 }, ""},
		"a spec that is never applied, before the conversion": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Generation, f.etcd.Status.ObservedGeneration, f.set.Annotations[v1alpha1.AnnotationAdoptedBy] = 2, 1, "uid"
			f.set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
		}, ""},
		"encryption without a store": {"3.5.27", "", nil, func(f *input) {
			f.etcd.Spec.Backup = &v1alpha1.BackupSpec{Encryption: &v1alpha1.EncryptionSpec{Recipients: []v1alpha1.Recipient{"age1"}}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := adoptable()
			f.set.Annotations = map[string]string{v1alpha1.AnnotationAdoptedVersion: c.adopted}
			for i := range f.snapshot.Ordinals {
				f.snapshot.Ordinals[i].Versions.Storage = c.storage
			}
			if c.change != nil {
				c.change(&f)
			}
			if said := refuseReturn(f, c.tasks); c.says == "" {
				g.Expect(said).To(BeEmpty())
			} else {
				g.Expect(said).To(ContainSubstring(c.says))
			}
		})
	}
}

// Only the claims that the StatefulSet controller has made for this StatefulSet are adopted later.
func TestMadeSince(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "etcd-main"}
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	set.CreationTimestamp = metav1.NewTime(noon)
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"made by its controller":       {func(*corev1.PersistentVolumeClaim) {}, true},
		"left over by another cluster": {func(c *corev1.PersistentVolumeClaim) { c.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second)) }, false},
		"restored by hand":             {func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }, false},
		"owned":                        {func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = []metav1.OwnerReference{{Kind: "Backup"}} }, false},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: labels, CreationTimestamp: metav1.NewTime(noon)}}
		c.change(claim)
		if got := madeSince(set, claim); got != c.want {
			t.Errorf("%s: madeSince is %t, want %t", name, got, c.want)
		}
	}
}
