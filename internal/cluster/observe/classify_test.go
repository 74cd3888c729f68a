// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podBuilder builds pods for tests.
type podBuilder struct{ corev1.Pod }

func newPod() *podBuilder { return &podBuilder{} }

func (b *podBuilder) etcd(state corev1.ContainerState, ready bool) *podBuilder {
	b.Status.ContainerStatuses = append(b.Status.ContainerStatuses, corev1.ContainerStatus{Name: v1alpha1.ContainerEtcd, State: state, Ready: ready})
	return b
}

// lasted is how the last run of the etcd container has ended.
func (b *podBuilder) lasted(code int32, message string) *podBuilder {
	b.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	return b
}

func (b *podBuilder) sidecar(ready bool) *podBuilder {
	b.Status.ContainerStatuses = append(b.Status.ContainerStatuses, corev1.ContainerStatus{Name: v1alpha1.ContainerBackupRestore, State: running(), Ready: ready})
	return b
}

func (b *podBuilder) init(state corev1.ContainerState) *podBuilder {
	b.Status.InitContainerStatuses = append(b.Status.InitContainerStatuses, corev1.ContainerStatus{Name: v1alpha1.InitContainerPrepare, State: state})
	return b
}

func (b *podBuilder) phase(p corev1.PodPhase, reason string) *podBuilder {
	b.Status.Phase, b.Status.Reason = p, reason
	return b
}

func (b *podBuilder) terminating() *podBuilder {
	b.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return b
}

func (b *podBuilder) is(conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason string) *podBuilder {
	b.Status.Conditions = append(b.Status.Conditions, corev1.PodCondition{Type: conditionType, Status: status, Reason: reason})
	return b
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: time.Unix(100, 0)}}}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func exited(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}
}

func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *podBuilder
		class   v1alpha1.PodClass
		trouble string
	}{
		"terminating, though it runs": {newPod().etcd(running(), true).terminating(), v1alpha1.ClassTerminating, ""},
		"exited":                      {newPod().etcd(exited(1), false), v1alpha1.ClassDead, "container etcd: exited with code 1: Error"},
		"crash loop, and why": {newPod().etcd(waiting("CrashLoopBackOff"), false).lasted(1, "open /data/new.etcd/.touch: read-only file system\n"), v1alpha1.ClassDead,
			"container etcd: CrashLoopBackOff: open /data/new.etcd/.touch: read-only file system"},
		"crash loop, and a long log": {newPod().etcd(waiting("CrashLoopBackOff"), false).lasted(1, strings.Repeat("é", 2000)+" at last"), v1alpha1.ClassDead,
			"container etcd: CrashLoopBackOff: ... " + strings.Repeat("é", 252) + " at last"},
		"restarts after a success":       {newPod().etcd(waiting("CrashLoopBackOff"), false).lasted(0, "done"), v1alpha1.ClassDead, "container etcd: CrashLoopBackOff"},
		"crash loop":                     {newPod().etcd(waiting("CrashLoopBackOff"), false), v1alpha1.ClassDead, "container etcd: CrashLoopBackOff"},
		"image cannot be pulled":         {newPod().etcd(waiting("ImagePullBackOff"), false), v1alpha1.ClassDead, "container etcd: ImagePullBackOff"},
		"an unknown reason":              {newPod().etcd(waiting("FluxCapacitorEmpty"), false), v1alpha1.ClassDead, "container etcd: FluxCapacitorEmpty"},
		"evicted by the kubelet":         {newPod().phase(corev1.PodFailed, "Evicted"), v1alpha1.ClassDead, "pod Failed: Evicted"},
		"init container fails":           {newPod().init(waiting("CrashLoopBackOff")).etcd(waiting("PodInitializing"), false), v1alpha1.ClassDead, "init container prepare: CrashLoopBackOff"},
		"init container has just failed": {newPod().init(exited(1)).etcd(waiting("PodInitializing"), false), v1alpha1.ClassDead, "init container prepare: exited with code 1: Error"},
		"init container is done":         {newPod().init(exited(0)).etcd(waiting("PodInitializing"), false), v1alpha1.ClassStarting, ""},
		"init container runs":            {newPod().init(running()).etcd(waiting("PodInitializing"), false), v1alpha1.ClassStarting, ""},
		"container is created":           {newPod().etcd(waiting("ContainerCreating"), false), v1alpha1.ClassStarting, ""},
		"waiting without a reason":       {newPod().etcd(waiting(""), false), v1alpha1.ClassStarting, ""},
		"no status yet":                  {newPod(), v1alpha1.ClassStarting, ""},
		"not scheduled":                  {newPod().is(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable"), v1alpha1.ClassStarting, "not scheduled: Unschedulable"},
		"not scheduled, not created":     {newPod().etcd(waiting(""), false).is(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable"), v1alpha1.ClassStarting, "not scheduled: Unschedulable"},
		"running, participation unknown": {newPod().etcd(running(), true), v1alpha1.ClassUnready, ""},
	} {
		t.Run(name, func(t *testing.T) {
			class, trouble := classify(&c.pod.Pod)
			if class != c.class || trouble != c.trouble {
				t.Errorf("%s %q, want %s %q", class, trouble, c.class, c.trouble)
			}
		})
	}
	if class, _ := classify(nil); class != v1alpha1.ClassMissing {
		t.Errorf("no pod: %s", class)
	}
}

func TestReadiness(t *testing.T) {
	for name, c := range map[string]struct {
		pod      *podBuilder
		want     bool
		podReady bool
	}{
		"ready":                          {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionTrue, ""), true, true},
		"the probe fails":                {newPod().etcd(running(), false).is(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), false, false},
		"only the sidecar's probe fails": {newPod().etcd(running(), true).sidecar(false).is(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), true, false},
		"only a native sidecar's fails":  {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady"), true, false},
		"a readiness gate is not met":    {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady"), true, false},
		"there is no condition yet":      {newPod().etcd(running(), true), true, true},
		"the node is lost: the node controller changed only the pod's condition": {newPod().etcd(running(), true).is(corev1.PodReady, corev1.ConditionFalse, ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describePod(&c.pod.Pod, ""); got.Ready != c.want || got.AllContainersReady != c.podReady {
				t.Errorf("ready: %t, the pod: %t", got.Ready, got.AllContainersReady)
			}
		})
	}
}

func TestEndpointIsThePodsOwn(t *testing.T) {
	pod := newPod().etcd(running(), true)
	pod.Status.PodIP = "10.0.0.1"
	if got := describePod(&pod.Pod, "").Endpoint; got != "http://10.0.0.1:2379" {
		t.Errorf("endpoint %s", got)
	}
	pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.ContainerEtcd, Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 12379}}}}
	if got := describePod(&pod.Pod, "").Endpoint; got != "http://10.0.0.1:12379" {
		t.Errorf("endpoint %s, but the pod listens on another port", got)
	}
}

// The members of etcd-druid are asked over the scheme that their own pods are made for.
func TestSchemeOfThePodsOfDruid(t *testing.T) {
	for name, c := range map[string]struct {
		manager, volume, want string
	}{
		"plaintext":                     {v1alpha1.ManagedByDruid, "etcd-config-file", "http://10.0.0.1:2379"},
		"TLS":                           {v1alpha1.ManagedByDruid, "etcd-server-tls", "https://10.0.0.1:2379"},
		"TLS, of an earlier version":    {v1alpha1.ManagedByDruid, "client-url-etcd-server-tls", "https://10.0.0.1:2379"},
		"TLS among peers only":          {v1alpha1.ManagedByDruid, "etcd-peer-server-tls", "http://10.0.0.1:2379"},
		"our own have their annotation": {v1alpha1.ManagedBy, "etcd-server-tls", "http://10.0.0.1:2379"},
	} {
		pod := newPod().etcd(running(), true)
		pod.Status.PodIP, pod.Labels = "10.0.0.1", map[string]string{v1alpha1.LabelManagedBy: c.manager}
		pod.Spec.Volumes = []corev1.Volume{{Name: c.volume}}
		if got := describePod(&pod.Pod, "").Endpoint; got != c.want {
			t.Errorf("%s: endpoint %s, want %s", name, got, c.want)
		}
	}
}

// Members of etcd-druid serve their peers over TLS as soon as they have the certificate. The operator's own in a StatefulSet that
// was adopted have the same labels, and annotations.
func TestPeerTLSOfThePodsOfDruid(t *testing.T) {
	converted := map[string]string{v1alpha1.AnnotationConfigChecksum: "1", v1alpha1.AnnotationPeerTLS: v1alpha1.TLSPrepared}
	for name, c := range map[string]struct {
		manager, volume string
		annotations     map[string]string
		want            string
		ofDruid         bool
	}{
		"plaintext":                  {v1alpha1.ManagedByDruid, "etcd-server-tls", nil, "", true},
		"TLS":                        {v1alpha1.ManagedByDruid, "etcd-peer-server-tls", nil, v1alpha1.TLSOn, true},
		"TLS, of an earlier version": {v1alpha1.ManagedByDruid, "peer-url-etcd-server-tls", nil, v1alpha1.TLSOn, true},
		"converted":                  {v1alpha1.ManagedByDruid, "peer-url-server-tls", converted, v1alpha1.TLSPrepared, false},
		"the operator's own":         {v1alpha1.ManagedBy, "etcd-peer-server-tls", converted, v1alpha1.TLSPrepared, false},
	} {
		pod := newPod().etcd(running(), true)
		pod.Labels, pod.Annotations = map[string]string{v1alpha1.LabelManagedBy: c.manager}, c.annotations
		pod.Spec.Volumes = []corev1.Volume{{Name: c.volume}}
		if got := describePod(&pod.Pod, ""); got.PeerTLS != c.want || got.OfDruid != c.ofDruid {
			t.Errorf("%s: TLS %q, of etcd-druid: %t", name, got.PeerTLS, got.OfDruid)
		}
	}
}

// The tag of etcd-druid's image is the version of a wrapper, and says nothing of the probes of etcd.
func TestVersionOfAWrapperIsNotThatOfEtcd(t *testing.T) {
	pod := newPod().etcd(running(), true)
	pod.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid}
	pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "example.com/etcd-wrapper:v4.0.0"}}
	if got := describePod(&pod.Pod, "").EtcdVersion; got != "" {
		t.Errorf("version %s", got)
	}
	set := &appsv1.StatefulSet{}
	set.Spec.Template.Labels, set.Spec.Template.Spec = pod.Labels, pod.Spec
	if got := describeStatefulSet(set).EtcdVersion; got != "" {
		t.Errorf("version %s of the template", got)
	}
}

func TestEtcdVersion(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/etcd:3.5.21-0":                      "3.5.21-0",
		"gcr.io/etcd-development/etcd:v3.6.8":                "3.6.8",
		"localhost:5000/etcd":                                "",
		"localhost:5000/etcd:v3.6.8@sha256:0123456789abcdef": "3.6.8",
		"localhost:5000/etcd@sha256:0123456789abcdef":        "",
	} {
		pod := newPod()
		pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.ContainerBackupRestore, Image: "x:v9.9.9"}, {Name: v1alpha1.ContainerEtcd, Image: image}}
		if got := describePod(&pod.Pod, "").EtcdVersion; got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

// What keeps a pod after it has terminated is told to people.
func TestFinalizersOfAPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/keep"}}}
	if got := describePod(pod, "").Finalizers; len(got) != 1 || got[0] != "example.com/keep" {
		t.Errorf("got %v, want the finalizer of the pod", got)
	}
}
