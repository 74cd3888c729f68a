// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func newNode(name string, ready corev1.ConditionStatus, cordoned bool) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Unschedulable: cordoned},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// newVolume returns a volume that can be used on the named nodes; on every node if none is named.
func newVolume(nodes ...string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	if len(nodes) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}},
		}}}}
	}
	return v
}

func newClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-m-0", UID: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	for _, set := range change {
		set(c)
	}
	return c
}

func lost(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }

func unbound(c *corev1.PersistentVolumeClaim) {
	c.Spec.VolumeName, c.Status.Phase = "", corev1.ClaimPending
}

func boundTo(v *corev1.PersistentVolume, claim types.UID) *corev1.PersistentVolume {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "data-m-0", UID: claim}
	return v
}

func beingDeleted(c *corev1.PersistentVolumeClaim) {
	c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"kubernetes.io/pvc-protection"}
}

func TestSurroundings(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	for name, c := range map[string]struct {
		around []client.Object
		node   string // the trouble of the pod's node
		volume string // part of the trouble of the volume
	}{
		"healthy":                                      {[]client.Object{newNode("n1", yes, false), newVolume("n1"), newClaim()}, "", ""},
		"the node is gone with the volume":             {[]client.Object{newVolume("n1"), newClaim()}, "gone", "node n1 is gone"},
		"the node is gone, the volume is not":          {[]client.Object{newNode("n2", yes, false), newVolume(), newClaim()}, "gone", ""},
		"the node is not ready":                        {[]client.Object{newNode("n1", no, false), newVolume("n1"), newClaim()}, "not ready", "node n1 is not ready"},
		"the node does not report any more":            {[]client.Object{newNode("n1", unknown, false), newVolume("n1"), newClaim()}, "not ready", "node n1 is not ready"},
		"the node is cordoned":                         {[]client.Object{newNode("n1", yes, true), newVolume("n1"), newClaim()}, "", "node n1 is cordoned"},
		"cordoned, and the volume can move":            {[]client.Object{newNode("n1", yes, true), newNode("n2", yes, false), newVolume("n1", "n2"), newClaim()}, "", ""},
		"cordoned, like the nodes where it could move": {[]client.Object{newNode("n1", yes, true), newNode("n2", yes, true), newVolume("n1", "n2"), newClaim()}, "", "no node takes pods"},
		"no other node fits":                           {[]client.Object{newNode("n1", yes, true), newNode("n3", yes, false), newVolume("n1", "n2"), newClaim()}, "", "no node takes pods"},
		"the claim is being deleted":                   {[]client.Object{newNode("n1", yes, false), newVolume("n1"), newClaim(beingDeleted)}, "", "is being deleted"},
		"there is no claim":                            {[]client.Object{newNode("n1", yes, false), newVolume("n1")}, "", "empty volume"},
		"no volume, on a cordoned node":                {[]client.Object{newNode("n1", yes, true), newClaim()}, "", "volume pv of its claim data-m-0 no longer exists"},
		"no volume, on a healthy node":                 {[]client.Object{newNode("n1", yes, false), newClaim()}, "", "volume pv of its claim data-m-0 no longer exists"},
		"the claim has lost its volume":                {[]client.Object{newNode("n1", yes, false), newVolume("n1"), newClaim(lost)}, "", "claim data-m-0 has lost its volume"},
		"the volume of another claim":                  {[]client.Object{newNode("n1", yes, false), boundTo(newVolume("n1"), "another"), newClaim()}, "", "volume pv of its claim data-m-0 is bound to another claim"},
		"the claim's own volume":                       {[]client.Object{newNode("n1", yes, false), boundTo(newVolume("n1"), "claim"), newClaim()}, "", ""},
		"the claim waits for a volume":                 {[]client.Object{newNode("n1", yes, false), newClaim(unbound)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(c.around...).Build()
			o := New(nil, nil, WithSurroundings(reader))
			ordinals := []cluster.Ordinal{{Name: "m-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Node: cluster.Node{Name: "n1"}, Claims: []string{"data-m-0"}}}, {Name: "m-1"}}
			if err := o.readSurroundings(t.Context(), reader, etcdKey, corev1.PodSpec{}, ordinals); err != nil {
				t.Fatal(err)
			}
			pod := ordinals[0].Pod
			if pod.Node.Trouble != c.node {
				t.Errorf("the node is %q", pod.Node.Trouble)
			}
			if (pod.VolumeTrouble == "") != (c.volume == "") || !strings.Contains(pod.VolumeTrouble, c.volume) {
				t.Errorf("the volume: %q, want %q", pod.VolumeTrouble, c.volume)
			}
		})
	}
}

var etcdKey = types.NamespacedName{Namespace: "ns", Name: "m"}

// A pod whose volume is where the template of its replacement may not be is as stranded as one on a node that is lost.
func TestTemplateThatExcludesTheVolume(t *testing.T) {
	zoned := func(name, zone string) *corev1.Node {
		n := newNode(name, corev1.ConditionTrue, false)
		n.Labels[corev1.LabelTopologyZone] = zone
		return n
	}
	in := func(zones ...string) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones}}}},
		}}}}
	}
	both := []client.Object{zoned("n1", "a"), zoned("n2", "b"), newClaim()}
	cordoned := zoned("n1", "a")
	cordoned.Spec.Unschedulable = true
	for name, c := range map[string]struct {
		around []client.Object
		next   corev1.PodSpec
		want   string
	}{
		"its zone is allowed":               {append(both, newVolume("n1")), in("a", "b"), ""},
		"its zone is excluded":              {append(both, newVolume("n1")), in("b"), "its volume pv can only be used on nodes that the node affinity of the pod template excludes, such as n1: allow them, or move the volume first"},
		"the volume can be in both":         {append(both, newVolume("n1", "n2")), in("b"), ""},
		"the volume can be anywhere":        {append(both, newVolume()), in("b"), ""},
		"no node is of the zone":            {append(both, newVolume("n1")), in("c"), "pod template excludes"},
		"a label is asked for":              {append(both, newVolume("n1")), corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelTopologyZone: "b"}}, "pod template excludes"},
		"its zone is only not preferred":    {append(both, newVolume("n1")), corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
		"its nodes are gone":                {append(both, newVolume("n9")), in("b"), "no node takes pods now (node n1 is excluded by the node affinity of the pod template)"},
		"its node is cordoned, and allowed": {[]client.Object{cordoned, zoned("n2", "b"), newClaim(), newVolume("n1")}, in("a"), "no node takes pods now (node n1 is cordoned)"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(c.around...).Build()
			ordinals := []cluster.Ordinal{{Name: "m-0", Pod: &cluster.Pod{Ready: true, Node: cluster.Node{Name: "n1"}, Claims: []string{"data-m-0"}}}}
			if err := New(nil, nil, WithSurroundings(reader)).readSurroundings(t.Context(), reader, etcdKey, c.next, ordinals); err != nil {
				t.Fatal(err)
			}
			if got := ordinals[0].Pod.VolumeTrouble; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("the volume: %q, want %q", got, c.want)
			}
		})
	}
}

// Claims are read with the same reader as pods. A stale cache does not show that a claim is being deleted, with its data.
func TestClaimsAreReadAsThePodsAre(t *testing.T) {
	for name, labels := range map[string]map[string]string{"made by the StatefulSet controller": {v1alpha1.LabelPartOf: "m"}, "pre-provisioned": nil} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim()
			claim.Labels = labels
			around := []client.Object{newNode("n1", corev1.ConditionTrue, false), newVolume("n1")}
			cache := fake.NewClientBuilder().WithObjects(append(around, claim.DeepCopy())...).Build()
			beingDeleted(claim)
			live := fake.NewClientBuilder().WithObjects(append(around, claim)...).Build()
			for _, reader := range []client.Reader{cache, live} {
				ordinals := []cluster.Ordinal{{Name: "m-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Node: cluster.Node{Name: "n1"}, Claims: []string{"data-m-0"}}}}
				if err := New(nil, nil, WithSurroundings(cache)).readSurroundings(t.Context(), reader, etcdKey, corev1.PodSpec{}, ordinals); err != nil {
					t.Fatal(err)
				}
				if pod := ordinals[0].Pod; (pod.VolumeTrouble != "") != (reader == live) || pod.VolumeGoes != (reader == live) {
					t.Errorf("the volume: %q, goes: %t", pod.VolumeTrouble, pod.VolumeGoes)
				}
			}
		})
	}
}

// What the kubelet last reported of a pod that is not ready may be stale. A stale cache does not show that its node is lost.
func TestNodesOfPodsThatAreNotReadyAreReadAsThePodsAre(t *testing.T) {
	claim, volume := newClaim(), newVolume("n1")
	cache := fake.NewClientBuilder().WithObjects(newNode("n1", corev1.ConditionTrue, false), claim, volume).Build()
	live := fake.NewClientBuilder().WithObjects(newNode("n1", corev1.ConditionUnknown, false), claim, volume).Build()
	for name, c := range map[string]struct {
		etcd, pod, cached bool
	}{
		"the pod is ready":           {true, true, true},
		"etcd is not":                {false, false, false},
		"a sidecar or a gate is not": {true, false, false}, // a controller that marks the pod as not ready would change nothing
	} {
		ordinals := []cluster.Ordinal{{Name: "m-0", Class: v1alpha1.ClassDead, Pod: &cluster.Pod{Ready: c.etcd, AllContainersReady: c.pod, Node: cluster.Node{Name: "n1"}}}}
		if err := New(nil, nil, WithSurroundings(cache)).readSurroundings(t.Context(), live, etcdKey, corev1.PodSpec{}, ordinals); err != nil {
			t.Fatal(err)
		}
		if trouble := ordinals[0].Pod.Node.Trouble; (trouble == "") != c.cached {
			t.Errorf("%s: the node is %q", name, trouble)
		}
	}
}

func TestPodThatIsOnNoNodeHasNothingToLose(t *testing.T) {
	reader := fake.NewClientBuilder().Build()
	o := New(nil, nil, WithSurroundings(reader))
	ordinals := []cluster.Ordinal{{Name: "m-0", Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{Claims: []string{"data-m-0"}}}}
	if err := o.readSurroundings(t.Context(), reader, etcdKey, corev1.PodSpec{}, ordinals); err != nil || ordinals[0].Pod.VolumeTrouble != "" {
		t.Errorf("%q, %v", ordinals[0].Pod.VolumeTrouble, err)
	}
}

func TestDisruptedPod(t *testing.T) {
	pod := newPod().etcd(running(), true).is(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI")
	if !describePod(&pod.Pod, "").Disrupted {
		t.Error("an eviction is not detected")
	}
	pod = newPod().etcd(running(), true).is(corev1.DisruptionTarget, corev1.ConditionFalse, "")
	if describePod(&pod.Pod, "").Disrupted {
		t.Error("a canceled eviction counts")
	}
}

// Kubernetes' controllers mark pods on lost nodes: what their kubelets reported before may no longer be true. A phase that the kubelet
// has written is final.
func TestPodsOfLostNodes(t *testing.T) {
	crashed := func() *podBuilder { return newPod().etcd(waiting("CrashLoopBackOff"), false) }
	for name, c := range map[string]struct {
		pod         *podBuilder
		lost, ended bool
	}{
		"nothing is marked":                  {crashed(), false, false},
		"marked as not ready":                {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, ""), true, false},
		"not ready by the kubelet":           {newPod().etcd(running(), false).is(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), false, false},
		"a readiness gate is not met":        {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady"), false, false},
		"a native sidecar is not ready":      {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), false, false},
		"evicted for a taint":                {crashed().is(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager"), true, false},
		"the eviction for a taint is off":    {crashed().is(corev1.DisruptionTarget, corev1.ConditionFalse, "DeletionByTaintManager"), false, false},
		"evicted by a user":                  {crashed().is(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI"), false, false},
		"ended by the kubelet":               {newPod().phase(corev1.PodFailed, "Evicted").is(corev1.DisruptionTarget, corev1.ConditionTrue, "TerminationByKubelet"), false, true},
		"ended of its own":                   {newPod().phase(corev1.PodSucceeded, ""), false, true},
		"ended by the pod garbage collector": {newPod().phase(corev1.PodFailed, "").is(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC"), true, false},
		"marked before the kubelet ended it": {newPod().phase(corev1.PodFailed, "").is(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager"), true, true},
	} {
		if p := describePod(&c.pod.Pod, ""); p.NodeLost != c.lost || p.Ended != c.ended {
			t.Errorf("%s: lost %t, ended %t", name, p.NodeLost, p.Ended)
		}
	}
	serves := newPod().etcd(running(), true).is(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByTaintManager")
	if !describePod(&serves.Pod, "").Ready {
		t.Error("an eviction counts as a failing probe")
	}
}
