// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// transformed is what the cache keeps of an object.
func transformed[T client.Object](t testing.TB, object T) T {
	t.Helper()
	options, err := CacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	for of, by := range options.ByObject {
		if _, ok := of.(T); ok {
			if by.Transform == nil {
				by = cache.ByObject{Transform: options.DefaultTransform}
			}
			kept, err := by.Transform(object)
			if err != nil {
				t.Fatal(err)
			}
			return kept.(T)
		}
	}
	t.Fatalf("%T is not cached", object)
	return object
}

func metaOf(name string, controller string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "m"}}
	if controller != "" {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: controller, Name: "m", UID: "e", Controller: ptr.To(true)}}
	}
	return m
}

// Of the metadata of a task, which may have more than a megabyte in each of hundreds, the cache keeps what is read.
func TestTheCacheBoundsTheMetadataOfTasks(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e"}}
	task := etcdtasks.New(etcd, "task", v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, Config: "restart: true"})
	task.Annotations = map[string]string{v1alpha1.AnnotationBypassFleet: "true", "a": strings.Repeat("x", 200<<10)}
	whole := task.DeepCopy()
	own := task.OwnerReferences[0]
	task.OwnerReferences = nil
	for i := range 3000 {
		task.Labels[fmt.Sprintf("%060d.example.com/%d", i, i)] = strings.Repeat("x", 63)
		task.Finalizers = append(task.Finalizers, fmt.Sprintf("example.com/%060d", i))
		task.OwnerReferences = append(task.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("%060d", i), UID: "u"})
	}
	task.OwnerReferences = append(task.OwnerReferences, own, metav1.OwnerReference{APIVersion: "v1", Kind: v1alpha1.KindEtcd, Name: strings.Repeat("x", 200<<10), UID: "u"})
	kept := transformed(t, task)
	g.Expect(kept.ObjectMeta.Size()).To(BeNumerically("<", 8<<10))
	g.Expect(etcdtasks.IsOwned(kept, etcd)).To(BeTrue())
	g.Expect(kept.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy))
	g.Expect(kept.Annotations).To(Equal(map[string]string{v1alpha1.AnnotationBypassFleet: "true"}))
	g.Expect(kept.Finalizers).NotTo(BeEmpty())
	g.Expect(kept.Spec).To(Equal(whole.Spec))

	// Its Etcd is added at the end, to the few that the cache has kept.
	task.OwnerReferences = nil
	for i := range 3 * maxNames {
		task.OwnerReferences = append(task.OwnerReferences, metav1.OwnerReference{APIVersion: own.APIVersion, Kind: v1alpha1.KindEtcd, Name: []string{"m", "n"}[i%2], UID: types.UID(fmt.Sprint(i))})
	}
	kept = transformed(t, task)
	g.Expect(etcdtasks.IsOwned(kept, etcd)).To(BeFalse())
	kept.OwnerReferences = append(kept.OwnerReferences, own)
	g.Expect(etcdtasks.IsOwned(transformed(t, kept.DeepCopy()), etcd)).To(BeTrue())
	kept.OwnerReferences = append([]metav1.OwnerReference{own}, slices.DeleteFunc(kept.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == "m" })...)
	g.Expect(etcdtasks.IsOwned(transformed(t, kept), etcd)).To(BeTrue(), "others are Etcds")

	delete(whole.Annotations, "a")
	g.Expect(transformed(t, whole.DeepCopy())).To(Equal(whole), "a task as others are")
}

// Of what only has the labels of an Etcd's objects, or is too large for one, the cache keeps whose it is.
func TestTheCacheKeepsWhatAnEtcdNeeds(t *testing.T) {
	g := NewWithT(t)
	config := func(name, controller string, bytes int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metaOf(name, controller), Data: map[string]string{"k": strings.Repeat("x", bytes)}}
	}
	for _, name := range []string{"m-config", (&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}}).ConfigMapName(v1alpha1.ManagedByDruid)} {
		g.Expect(transformed(t, config(name, "Etcd", 10))).To(Equal(config(name, "Etcd", 10)))
	}
	for name, c := range map[string]*corev1.ConfigMap{
		"no controller": config("m-config", "", 10), "another controller": config("m-config", "EtcdOperatorTask", 10),
		"another name": config("m-other", "Etcd", 10), "too large": config("m-config", "Etcd", maxObject),
	} {
		want := c.DeepCopy()
		want.Data = nil
		c.Annotations, c.Labels["long"] = map[string]string{"long": "story"}, "story"
		g.Expect(transformed(t, c)).To(Equal(want), name)
	}

	lease := &coordinationv1.Lease{ObjectMeta: metaOf("any", "Etcd"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}
	g.Expect(transformed(t, lease.DeepCopy()).Spec).To(Equal(lease.Spec))
	lease.Spec.HolderIdentity = ptr.To(strings.Repeat("x", maxLease))
	g.Expect(transformed(t, lease.DeepCopy()).Spec).To(BeZero())

	// What others have annotated at length is cut, and neither the Lease nor the error of a snapshot is lost.
	lease.Spec.HolderIdentity = ptr.To("x")
	lease.Annotations = map[string]string{v1alpha1.AnnotationBackupError: strings.Repeat("ä", 20<<10), "long": strings.Repeat("x", 20<<10), "short": "x"}
	kept := transformed(t, lease.DeepCopy())
	g.Expect(kept.Spec).To(Equal(lease.Spec))
	g.Expect(kept.Annotations).To(HaveLen(1))
	g.Expect(kept.Annotations[v1alpha1.AnnotationBackupError]).To(And(HavePrefix("ää"), HaveLen(maxValue)))
	g.Expect(kept.Size()).To(BeNumerically("<", maxLease))
	lease.OwnerReferences = nil
	g.Expect(transformed(t, lease.DeepCopy()).Annotations).To(BeEmpty(), "no Etcd needs it")
}

// Whoever may create pods and claims in a namespace can give them the labels of an Etcd's, or need none: all claims are cached. What the cache
// keeps of one has a bound, whatever it has, and everything that is read of a member's.
func TestTheCacheBoundsPodsAndClaims(t *testing.T) {
	g := NewWithT(t)
	large := metaOf("m-0", "StatefulSet")
	large.OwnerReferences[0].APIVersion = "apps/v1"
	large.Labels[appsv1.StatefulSetRevisionLabel], large.Labels[v1alpha1.LabelComponent] = "r", v1alpha1.ComponentStatefulSet
	large.Annotations = map[string]string{v1alpha1.AnnotationClientTLS: v1alpha1.TLSOn, v1alpha1.AnnotationConfigChecksum: "c", v1alpha1.AnnotationInPlaceUpdate: strings.Repeat("m", 2<<10), v1alpha1.AnnotationAdoptedBy: "e"}
	read := *large.DeepCopy()
	for i := range 4000 {
		long := fmt.Sprintf("example.com/%d-%s", i, strings.Repeat("x", 40))
		large.Labels[long], large.Annotations[long] = "x", "x"
		large.Finalizers = append(large.Finalizers, long)
		large.OwnerReferences = append(large.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: long, UID: "u"})
	}
	pod := &corev1.Pod{ObjectMeta: *large.DeepCopy(), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Ports: make([]corev1.ContainerPort, 4000)}}}}
	for range 4000 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "m-m-0"}}})
	}
	g.Expect(pod.Size()).To(BeNumerically(">", 500<<10))
	kept := transformed(t, pod.DeepCopy())
	g.Expect(kept.Size()).To(BeNumerically("<", 8<<10))
	g.Expect(kept.Labels).To(Equal(read.Labels))
	delete(read.Annotations, v1alpha1.AnnotationAdoptedBy)
	g.Expect(kept.Annotations).To(Equal(read.Annotations))
	g.Expect(metav1.GetControllerOf(kept)).To(Equal(metav1.GetControllerOf(pod)))
	pod.Annotations = map[string]string{"short": "x", v1alpha1.AnnotationPeerTLS: v1alpha1.TLSOn}
	g.Expect(transformed(t, pod.DeepCopy()).Annotations).To(Equal(map[string]string{v1alpha1.AnnotationPeerTLS: v1alpha1.TLSOn}), "nothing selects by annotations")
	pod.Labels = map[string]string{"short": "x", v1alpha1.LabelPartOf: "m"}
	g.Expect(transformed(t, pod.DeepCopy()).Labels).To(Equal(pod.Labels), "a StatefulSet may select by any label")

	class, source := "fast", &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: strings.Repeat("x", 5000)}
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi"), "example.com/x": resource.MustParse("1")}
	claim := func(name string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: *large.DeepCopy(), Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "v", StorageClassName: &class, DataSource: source, Resources: corev1.VolumeResourceRequirements{Requests: storage},
			Selector: &metav1.LabelSelector{MatchLabels: large.Labels},
		}}
		c.Name, c.Annotations[v1alpha1.AnnotationTemporary] = name, "u"
		return c
	}
	member := transformed(t, claim("m-m-0"))
	g.Expect(member.Size()).To(BeNumerically("<", 4<<10))
	g.Expect(member.OwnerReferences).To(And(HaveLen(maxNames), ContainElement(large.OwnerReferences[0])))
	g.Expect(member.Annotations).To(Equal(map[string]string{v1alpha1.AnnotationAdoptedBy: "e", v1alpha1.AnnotationTemporary: "u"}))
	g.Expect(member.Spec.Resources.Requests).To(Equal(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}))
	g.Expect(member.Spec).To(And(HaveField("VolumeName", "v"), HaveField("StorageClassName", &class), HaveField("Selector", BeNil()), HaveField("DataSource", Not(BeNil()))))
	g.Expect(member.Labels).To(HaveKeyWithValue(v1alpha1.LabelPartOf, "m"))

	other := transformed(t, claim("backups"))
	g.Expect(other.Size()).To(BeNumerically("<", 1<<10))
	g.Expect(other.Spec).To(Equal(corev1.PersistentVolumeClaimSpec{VolumeName: "v"}), "it may be the store of a member, whose volume is read")
	g.Expect(other.Status).To(Equal(corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}))
}

// Everything that a tenant can make long of a pod is long: the labels and annotations that are read, images, names, and what containers say at
// their end. What decides about a member is kept in whichever place it is.
func TestTheCacheBoundsThePodThatHasMostOfAll(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("ä", 20<<10)
	pod := &corev1.Pod{ObjectMeta: metaOf("m-0", ""), Status: corev1.PodStatus{Message: long, Reason: long}}
	pod.Annotations = map[string]string{}
	for _, key := range readAnnotations {
		pod.Annotations[key] = strings.Repeat("x", maxValue)
	}
	pod.Annotations[v1alpha1.AnnotationInPlaceUpdate] = strings.Repeat("x", maxMark)
	for i := range 60 {
		pod.Labels[fmt.Sprint("example.com/", i)] = strings.Repeat("x", 63)
		pod.Annotations[fmt.Sprint("example.com/", i)] = strings.Repeat("x", 200)
	}
	said := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: long}, Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: long}}
	for i := range 500 {
		name := fmt.Sprint("c-", i)
		switch i {
		case 490:
			name = v1alpha1.ContainerBackupRestore
		case 499:
			name = v1alpha1.ContainerEtcd
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: long})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: said, LastTerminationState: said, Ready: i != 450})
	}
	refusal := strings.Repeat("r", 4<<10)
	pod.Status.InitContainerStatuses = append(slices.Clone(pod.Status.ContainerStatuses[:400]), corev1.ContainerStatus{
		Name: v1alpha1.InitContainerPrepare, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: refusal}},
	})
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Message: long}}
	before := pod.DeepCopy()
	kept := transformed(t, pod)
	g.Expect(pod).To(Equal(before), "the object of the watch is not changed")
	g.Expect(kept.Size()).To(BeNumerically("<", 100<<10))
	etcd := pods.Container(kept, v1alpha1.ContainerEtcd)
	g.Expect(etcd).NotTo(BeNil())
	g.Expect(etcd.State.Terminated.ExitCode).To(BeEquivalentTo(1))
	g.Expect(etcd.State.Terminated.Message).To(And(HavePrefix("ää"), HaveLen(maxMessage)))
	g.Expect(pods.Container(kept, v1alpha1.ContainerBackupRestore)).NotTo(BeNil())
	g.Expect(kept.Status.ContainerStatuses).To(ContainElement(HaveField("Ready", false)), "one that is not ready keeps the pod from being ready")
	last := kept.Status.InitContainerStatuses[len(kept.Status.InitContainerStatuses)-1]
	g.Expect(last.LastTerminationState.Terminated.Message).To(Equal(refusal))
	g.Expect(kept.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationInPlaceUpdate, HaveLen(maxMark)))
}

// An owner that is not kept by its name is still no owner of an Etcd's claim.
func TestAnOwnerWithALongName(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metaOf("m-m-0", "")}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("x", 1<<20), UID: "u"}}
	kept := transformed(t, claim)
	g := NewWithT(t)
	g.Expect(kept.Size()).To(BeNumerically("<", 1<<10))
	g.Expect(ownership.OfClaim(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, kept)).NotTo(BeNil())
}

// Every object of an Etcd is kept whole.
func TestTheCacheKeepsEveryObjectOfAnEtcd(t *testing.T) {
	for _, manager := range []string{"", v1alpha1.ManagedByDruid} {
		for _, key := range component.Keys(&v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, 3, manager) {
			m := metaOf(key.Name, "Etcd")
			NewWithT(t).Expect(needed(key.Kind.Kind, &m)).To(BeTrue(), "%v", key)
		}
	}
}

// The heap that a thousand ConfigMaps of 1 MB with the operator's label take.
func BenchmarkLabelledConfigMaps(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := make([]*corev1.ConfigMap, 1000)
		for i := range kept {
			kept[i] = transformed(b, &corev1.ConfigMap{ObjectMeta: metaOf(fmt.Sprint("c-", i), "Etcd"), Data: map[string]string{"k": strings.Repeat("x", 1<<20)}})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "heap-bytes")
		runtime.KeepAlive(kept)
	}
}
