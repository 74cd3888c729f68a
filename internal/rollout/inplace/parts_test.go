// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOperations(t *testing.T) {
	for operation, isWrite := range map[string]bool{string(PatchMetadata): true, string(ResizePod): true, string(UpdateContainer): true, "DeletePod": false, "": false} {
		what := "deletion"
		if isWrite {
			what = "update"
		}
		if IsWrite(operation) != isWrite || Describe(operation) != what {
			t.Errorf("%q: %t, %s", operation, IsWrite(operation), Describe(operation))
		}
	}
}

// A resize changes what it says, and nothing else.
func TestUnasked(t *testing.T) {
	g := NewWithT(t)
	p := podOf(base(), "a")
	c := caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("1", "1Gi"))})
	metadata, resize := Assess(c).Writes[0], Assess(c).Writes[1]
	g.Expect(metadata.Unasked(p)).To(BeEmpty())
	g.Expect(resize.Unasked(p)).To(Equal("requests.cpu of container etcd"), "it is not resized")
	apply(t, p, resize)
	g.Expect(resize.Unasked(p)).To(BeEmpty())
	p.Labels["more"], p.Spec.Containers[1].Image = "x", "x"
	g.Expect(resize.Unasked(p)).To(BeEmpty(), "others may change the rest")
	p.Spec.Containers[1].Resources.Limits = amounts("", "32Mi")
	g.Expect(resize.Unasked(p)).To(Equal("limits.memory of container backup-restore"))
}

func TestKeepsPod(t *testing.T) {
	for _, c := range []struct {
		Assessment
		want bool
	}{
		{Assessment{}, false},
		{Assessment{Restarted: true}, true},
		{Assessment{Writes: []Write{{}}}, false},
		{Assessment{Writes: []Write{{Final: true}}}, true},
		{Assessment{Writes: []Write{{}, {Final: true}}}, false},
		{Assessment{Restarted: true, Writes: []Write{{}}}, true},
	} {
		if c.keepsPod() != c.want {
			t.Errorf("%+v: %t", c.Assessment, c.keepsPod())
		}
	}
}

// A pod needs the revisions that it may have values of, and no more than a bound.
func TestRevisions(t *testing.T) {
	g := NewWithT(t)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "a"}}}
	g.Expect(Revisions(p, "b")).To(Equal([]string{"a", "b"}))
	mark := func(m cluster.Mark) {
		m.UID = "uid"
		p.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: m.String()}
	}
	mark(cluster.Mark{Source: "a", Target: "c", Earlier: []string{"e", "d"}})
	g.Expect(Revisions(p, "b")).To(Equal([]string{"a", "b", "c", "d", "e"}))
	mark(cluster.Mark{Source: "a", Target: "b", Earlier: []string{"d"}})
	g.Expect(Revisions(p, "b")).To(Equal([]string{"a", "b", "d"}))
	mark(cluster.Mark{Target: "c", Earlier: strings.Split("defghijklmnopqrst", "")})
	g.Expect(Revisions(p, "b")).To(HaveLen(maxEarlier + 2))
}

// Another target forgets why the one before failed, and remembers that there was one.
func TestAnotherTarget(t *testing.T) {
	g := NewWithT(t)
	m := cluster.Mark{Target: "b", Failed: "why", Earlier: []string{"d", "b", "c"}}
	g.Expect(m.To("b")).To(Equal(m))
	g.Expect(m.To("c")).To(Equal(cluster.Mark{Target: "c", Earlier: []string{"b", "d"}}))
}

func TestNamesOfLeaves(t *testing.T) {
	for want, l := range map[string]leaf{
		"limits.cpu of container etcd": {kind: ResizePod, bound: limits, key: "cpu", container: "etcd"},
		"the image of container etcd":  {kind: UpdateContainer, container: "etcd"},
		"label team":                   {kind: PatchMetadata, bound: label, key: "team"},
	} {
		if l.String() != want {
			t.Errorf("%s, not %s", l, want)
		}
	}
	if got := list([]leaf{{bound: label, key: "a"}, {bound: label, key: "b"}}); got != "label a and label b" {
		t.Error(got)
	}
}

func TestLowers(t *testing.T) {
	limit, request, other := leaf{kind: ResizePod, bound: limits, key: "cpu"}, leaf{kind: ResizePod, bound: requests, key: "cpu"}, leaf{kind: PatchMetadata, bound: label, key: "cpu"}
	for name, c := range map[string]struct {
		leaf
		before, after string
		want          bool
	}{
		"lower":               {limit, "2", "1", true},
		"the same":            {limit, "1", "1000m", false},
		"higher":              {limit, "1", "2", false},
		"a new limit":         {limit, "", "1", true},
		"no limit any more":   {limit, "1", "", false},
		"a new request":       {request, "", "1", false},
		"no request any more": {request, "1", "", true},
		"neither":             {request, "", "", false},
		"a label":             {other, "2", "1", false},
		"what is no quantity": {limit, "1", "much", true},
	} {
		before, after := values{}, values{}
		if c.before != "" {
			before[c.leaf] = c.before
		}
		if c.after != "" {
			after[c.leaf] = c.after
		}
		if got := after.lowers(before, c.leaf); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A member is at risk from the write that restarts etcd until the kubelet has restarted it: also if the template changes
// meanwhile, and if the pod is to be replaced by then.
func TestAtRisk(t *testing.T) {
	image := func(image string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { etcd(t).Image = image }
	}
	templates := map[string]*corev1.PodTemplateSpec{
		"a": base(), "b": with(image("etcd:2")), "c": with(image("etcd:3")), "other": with(image("etcd:2"), func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }),
	}
	g := NewWithT(t)
	p := podOf(base(), "a")
	at := func(target string) Assessment { return Assess(caseOf(t, p, target, templates)) }
	next := func(target string) {
		t.Helper()
		g.Expect(at(target).Pending).To(BeEmpty())
		apply(t, p, at(target).Writes[0])
	}
	g.Expect(at("b").AtRisk).To(BeFalse(), "nothing was written")
	next("b")
	g.Expect(at("b").AtRisk).To(BeFalse(), "only the mark was written")
	next("b")
	for _, target := range []string{"a", "b", "c", "other"} {
		g.Expect(at(target).AtRisk).To(BeTrue(), "the template changes to %s before the kubelet reacts", target)
	}
	g.Expect(at("other").Replace).NotTo(BeEmpty())
	carryOut(p)
	for target := range templates {
		g.Expect(at(target).AtRisk).To(BeFalse(), "the kubelet has restarted etcd, and the target is %s", target)
	}
	next("c")
	g.Expect(at("c").AtRisk).To(BeFalse(), "only the mark was written")
	next("c")
	g.Expect(at("c").AtRisk).To(BeTrue())
	carryOut(p)
	g.Expect(at("c").AtRisk).To(BeFalse())

	delete(templates, "a")
	g.Expect(at("c").AtRisk).To(BeFalse(), "nothing is known")
}

// Resources that were lowered, and resources that were raised.
func TestLoweredResourcesAreARisk(t *testing.T) {
	for memory, want := range map[string]bool{"512Mi": true, "2Gi": false} {
		g := NewWithT(t)
		c := caseOf(t, podOf(base(), "a"), "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("500m", memory))})
		for _, after := range []bool{false, false, want} {
			a := Assess(c)
			g.Expect(a.AtRisk).To(Equal(after))
			apply(t, c.Pod, a.Writes[0])
		}
	}
}
