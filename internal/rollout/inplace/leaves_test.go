// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// What a pod consists of that can change in place. Other init containers, and sidecars, cannot.
func TestLeavesOf(t *testing.T) {
	g := NewWithT(t)
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: v1alpha1.InitContainerPrepare, Image: "agent:1"}, {Name: "other", Image: "x"},
		},
		Containers: []corev1.Container{
			{Name: v1alpha1.ContainerEtcd, Image: "etcd:1", Resources: corev1.ResourceRequirements{Limits: amounts("2", ""), Requests: amounts("1", "1Gi")}},
			{Name: "other", Image: "x", Resources: corev1.ResourceRequirements{Limits: amounts("", "2Gi")}},
		},
	}
	want := values{
		{kind: PatchMetadata, bound: label, key: "a"}:                                        "b",
		{kind: PatchMetadata, bound: annotation, key: "c"}:                                   "d",
		{kind: UpdateContainer, container: v1alpha1.InitContainerPrepare, init: true}:        "agent:1",
		{kind: UpdateContainer, container: v1alpha1.ContainerEtcd}:                           "etcd:1",
		{kind: ResizePod, container: v1alpha1.ContainerEtcd, bound: limits, key: "cpu"}:      "2",
		{kind: ResizePod, container: v1alpha1.ContainerEtcd, bound: requests, key: "cpu"}:    "1",
		{kind: ResizePod, container: v1alpha1.ContainerEtcd, bound: requests, key: "memory"}: "1Gi",
		{kind: ResizePod, container: "other", bound: limits, key: "memory"}:                  "2Gi",
		{kind: ResizePod, container: "other", bound: requests, key: "memory"}:                "2Gi",
	}
	g.Expect(leavesOf(map[string]string{"a": "b"}, map[string]string{"c": "d"}, spec)).To(Equal(want))
	spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	delete(want, leaf{kind: UpdateContainer, container: v1alpha1.InitContainerPrepare, init: true})
	g.Expect(leavesOf(map[string]string{"a": "b"}, map[string]string{"c": "d"}, spec)).To(Equal(want))
}

func TestChangedIsInOrder(t *testing.T) {
	from, to, too := values{}, values{}, values{}
	var want []string
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		l := leaf{kind: PatchMetadata, bound: label, key: key}
		from[l], to[l], too[l] = "1", "1", "1"
		if key != "c" {
			want = append(want, "label "+key)
			to[l] = "2"
		}
	}
	for range 20 {
		var got []string
		for _, l := range changed(from, to, too) {
			got = append(got, l.String())
		}
		if !slices.Equal(got, want) {
			t.Fatal(got)
		}
	}
}

func TestUnpatchable(t *testing.T) {
	const content, operators, creation = "stands for content, or asks for a restart", "is managed by the operator", "is read only when a pod is created"
	for l, want := range map[leaf]string{
		{bound: annotation, key: "checksum/config"}:                                     content,
		{bound: annotation, key: "checksum-of"}:                                         content,
		{bound: annotation, key: "example.com/checksum-secret"}:                         content,
		{bound: annotation, key: "kubectl.kubernetes.io/restartedAt"}:                   content,
		{bound: annotation, key: "example.com/config-hash"}:                             content,
		{bound: annotation, key: "secretSHA256"}:                                        content,
		{bound: annotation, key: "reloader.stakater.com/last-reloaded-from"}:            content,
		{bound: annotation, key: "cattle.io/timestamp"}:                                 content,
		{bound: annotation, key: "rollme"}:                                              content,
		{bound: annotation, key: "instrumentation.opentelemetry.io/inject-go"}:          creation,
		{bound: label, key: "kuma.io/sidecar-injection"}:                                creation,
		{bound: label, key: "azure.workload.identity/use"}:                              creation,
		{bound: annotation, key: "k8s.ovn.org/pod-networks"}:                            creation,
		{bound: annotation, key: "io.kubernetes.cri-o.Devices"}:                         creation,
		{bound: annotation, key: "io.katacontainers.config.hypervisor.memory"}:          creation,
		{bound: label, key: "druid.gardener.cloud/x"}:                                   operators,
		{bound: label, key: "x.druid.gardener.cloud/x"}:                                 operators,
		{bound: label, key: v1alpha1.LabelManagedBy}:                                    operators,
		{bound: label, key: v1alpha1.LabelPartOf}:                                       operators,
		{bound: label, key: v1alpha1.LabelComponent}:                                    operators,
		{bound: label, key: v1alpha1.LabelName}:                                         operators,
		{bound: annotation, key: v1alpha1.LabelPartOf}:                                  "",
		{bound: label, key: "app.kubernetes.io/version"}:                                "",
		{bound: label, key: "example.com/name"}:                                         "",
		{bound: annotation, key: "cluster-autoscaler.kubernetes.io/safe"}:               "",
		{bound: annotation, key: "container.apparmor.security.beta.kubernetes.io/etcd"}: creation,
		{bound: annotation, key: "x.k8s.io/y"}:                                          creation,
		{bound: annotation, key: "cni.projectcalico.org/ip"}:                            creation,
		{bound: annotation, key: "sidecar.istio.io/inject"}:                             creation,
		{bound: annotation, key: "linkerd.io/inject"}:                                   creation,
		{bound: annotation, key: "vault.hashicorp.com/agent"}:                           creation,
		{bound: label, key: "team"}:                                                     "",
		{bound: annotation, key: "kubernetes.io"}:                                       "",
	} {
		if got := unpatchable(l); got != want {
			t.Errorf("%s: %q, not %q", l, got, want)
		}
	}
}

// What is derived from values that change would keep the old ones.
func TestDerived(t *testing.T) {
	resized, relabelled := leaf{kind: ResizePod, container: "etcd", bound: limits, key: "cpu"}, leaf{kind: PatchMetadata, bound: label, key: "a"}
	image := leaf{kind: UpdateContainer, container: "etcd"}
	variable := func(container, name string, from *corev1.EnvVarSource) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: container, Env: []corev1.EnvVar{{Name: "X", Value: "y"}, {Name: name, ValueFrom: from}}}}}
	}
	file := func(item corev1.DownwardAPIVolumeFile, projected bool) corev1.PodSpec {
		item.Path = "f"
		v := corev1.Volume{Name: "v"}
		if projected {
			v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}, {DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{item}}}}}
		} else {
			v.DownwardAPI = &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{item}}
		}
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "other"}, v}}
	}
	resources := &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}
	metadata := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	const ofResources, ofMetadata, ofLimits, ofFile = "variable E of container etcd is derived from resources", "variable E of container etcd is derived from labels or annotations",
		"variable GOMEMLIMIT of container etcd depends on its resources", "file f of volume v is derived from a value that changes"
	for name, c := range map[string]struct {
		spec    corev1.PodSpec
		changes leaf
		want    string
	}{
		"of resources":                    {variable("etcd", "E", resources), resized, ofResources},
		"of resources, which stay":        {variable("etcd", "E", resources), relabelled, ""},
		"of resources, and an image":      {variable("etcd", "E", resources), image, ""},
		"of labels":                       {variable("etcd", "E", metadata("metadata.labels['a']")), relabelled, ofMetadata},
		"of annotations":                  {variable("etcd", "E", metadata("metadata.annotations['a']")), relabelled, ofMetadata},
		"of labels, which stay":           {variable("etcd", "E", metadata("metadata.labels['a']")), resized, ""},
		"of its revision":                 {variable("etcd", "E", metadata("metadata.labels['controller-revision-hash']")), resized, ofMetadata},
		"of the name":                     {variable("etcd", "E", metadata("metadata.name")), relabelled, ""},
		"a limit":                         {variable("etcd", "GOMEMLIMIT", nil), resized, ofLimits},
		"a limit of another container":    {variable("agent", "GOMAXPROCS", nil), resized, ""},
		"a file of resources":             {file(corev1.DownwardAPIVolumeFile{ResourceFieldRef: resources.ResourceFieldRef}, false), resized, ofFile},
		"a file of resources, which stay": {file(corev1.DownwardAPIVolumeFile{ResourceFieldRef: resources.ResourceFieldRef}, false), relabelled, ""},
		"a file of labels":                {file(corev1.DownwardAPIVolumeFile{FieldRef: metadata("metadata.labels").FieldRef}, true), relabelled, ofFile},
		"a file of labels, which stay":    {file(corev1.DownwardAPIVolumeFile{FieldRef: metadata("metadata.labels").FieldRef}, true), resized, ""},
		"a projected file of resources":   {file(corev1.DownwardAPIVolumeFile{ResourceFieldRef: resources.ResourceFieldRef}, true), resized, ofFile},
		"a file of the name":              {file(corev1.DownwardAPIVolumeFile{FieldRef: metadata("metadata.name").FieldRef}, true), relabelled, ""},
	} {
		if got := derived(&c.spec, []leaf{c.changes}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// People read what a write changes.
func TestWordsOfWrites(t *testing.T) {
	g := NewWithT(t)
	a, b := leaf{kind: PatchMetadata, bound: label, key: "a"}, leaf{kind: PatchMetadata, bound: label, key: "b"}
	cpu, image := leaf{kind: ResizePod, container: "etcd", bound: limits, key: "cpu"}, leaf{kind: UpdateContainer, container: "backup-restore"}
	w := &work{Input: Input{Pod: &corev1.Pod{}, TargetName: "new"}, live: values{image: "agent:1"}, goal: values{a: "1", b: "2", cpu: "2", image: "agent:2"}}
	g.Expect(w.begin(cluster.Mark{}, nil).What).To(Equal("mark the pod as being updated"))
	g.Expect(w.begin(cluster.Mark{}, []leaf{a}).What).To(Equal("mark the pod as being updated and set label a"))
	g.Expect(w.final(nil).What).To(Equal("set its revision"))
	g.Expect(w.final([]leaf{a, b}).What).To(Equal("set label a, label b and its revision"))
	g.Expect(w.final([]leaf{a}).What).To(Equal("set label a and its revision"))
	w.mark, w.from, w.leaves = &cluster.Mark{}, values{image: "agent:1"}, []leaf{image}
	g.Expect(w.final(nil).What).To(Equal("set its revision, now that the image of container backup-restore has changed"))
	w.leaves = []leaf{cpu, image}
	g.Expect(w.final(nil).What).To(Equal("set its revision, now that limits.cpu of container etcd and the image of container backup-restore have changed"))
	w.from = w.goal
	g.Expect(w.final(nil).What).To(Equal("set its revision"), "the update was taken back")
	g.Expect(w.resize([]leaf{cpu}).What).To(Equal("change limits.cpu of container etcd from none to 2"))
	g.Expect(w.update([]leaf{image}, false).What).To(Equal("change the image of container backup-restore from agent:1 to agent:2"))
}

// What others write into a pod does not fill the status of a task, or reach a terminal.
func TestReasonsAreBounded(t *testing.T) {
	g := NewWithT(t)
	p := podOf(base(), "a")
	p.Annotations[v1alpha1.AnnotationInPlaceUpdate] = cluster.Mark{UID: p.UID, Source: "a", Target: "b", Failed: "\x1b[2J" + strings.Repeat("x", 200_000)}.String()
	a := Assess(caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(note("b"))}))
	g.Expect(len(a.Replace)).To(And(BeNumerically(">", 100), BeNumerically("<=", maxReason)))
	g.Expect(a.Replace).NotTo(ContainSubstring("\x1b"))

	many := with(func(t *corev1.PodTemplateSpec) {
		for i := range 1000 {
			t.Annotations[fmt.Sprint("key", i)] = "x"
		}
	})
	p = podOf(base(), "a")
	a = Assess(caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": many}))
	g.Expect(a.Writes).To(HaveLen(1))
	g.Expect(len(a.Writes[0].What)).To(BeNumerically("<", maxReason))
	g.Expect(a.Writes[0].What).To(ContainSubstring("annotation key10, annotation key100"))
	g.Expect(a.Writes[0].What).To(ContainSubstring("992 more and its revision"))
}

func TestTroubleOfAContainer(t *testing.T) {
	for want, state := range map[string]corev1.ContainerState{
		"":                             {},
		" (ImagePullBackOff: no such)": {Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such"}},
		" (Creating)":                  {Waiting: &corev1.ContainerStateWaiting{Reason: "Creating"}},
		" (exited with code 3)":        {Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
	} {
		if got := trouble(&corev1.ContainerStatus{State: state}); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if got := trouble(nil); got != "" {
		t.Error(got)
	}
}
