// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestRevisionsThatCannotBeRead(t *testing.T) {
	for _, data := range []string{"{", `{"spec":{}}`, `{"spec":{"template":[]}}`, `{"spec":{"template":{"spec":{"containers":7}}}}`} {
		if parsed, err := ParseTemplate([]byte(data)); err == nil || parsed != nil {
			t.Errorf("%s: %v, %v", data, parsed, err)
		}
	}
}

// What the controllers add, and resources that are empty, are no difference.
func TestUnlike(t *testing.T) {
	g := NewWithT(t)
	parse := func(template string) *Template {
		parsed, err := ParseTemplate([]byte(`{"spec":{"template":` + template + `}}`))
		g.Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	plain := `{"spec":{"containers":[{"name":"etcd"}]}}`
	for template, want := range map[string]string{
		plain: "",
		`{"$patch":"replace","spec":{"containers":[{"name":"etcd"}]}}`:                                         "",
		`{"spec":{"containers":[{"name":"etcd","resources":{"limits":{"cpu":"1"}}}]}}`:                         "",
		`{"spec":{"containers":[{"name":"etcd","resources":{"limits":{"cpu":"1","ephemeral-storage":"1"}}}]}}`: "spec.containers[etcd].resources",
		`{"spec":{"containers":[{"name":"etcd","args":["a"]}]}}`:                                               "spec.containers[etcd].args",
		`{"spec":{"containers":[{"name":"etcd"},{"name":"more"}]}}`:                                            "spec.containers",
		`{"spec":{"containers":[{"name":"etcd"}],"hostNetwork":true}}`:                                         "spec.hostNetwork",
	} {
		g.Expect(unlike(parse(plain), parse(template))).To(Equal(want), template)
		g.Expect(unlike(parse(template), parse(plain))).To(Equal(want), template)
	}
	labeled, before134 := parse(`{"metadata":{"labels":{"a":"b"}}}`), parse(`{"metadata":{"labels":{"a":"c"},"creationTimestamp":null}}`)
	g.Expect(unlike(labeled, before134)).To(BeEmpty(), "a cluster that was upgraded has revisions of both forms")
	args := func(second string) *Template {
		return parse(`{"spec":{"containers":[{"name":"etcd","args":["a","` + second + `"]}]}}`)
	}
	g.Expect(unlike(args("b"), args("c"))).To(Equal("spec.containers[etcd].args[1]"))
}

// Two patches of the same are the same.
func TestOrderOfContainers(t *testing.T) {
	g := NewWithT(t)
	goal := values{}
	var leaves []leaf
	for _, container := range []string{"c", "a", "b"} {
		l := leaf{kind: ResizePod, container: container, bound: limits, key: "cpu"}
		goal[l] = "1"
		leaves = append(leaves, l)
	}
	containers := resourcesPatch(leaves, goal)["spec"].(map[string]any)["containers"].([]any)
	g.Expect(containers).To(HaveLen(3))
	for i, name := range []string{"a", "b", "c"} {
		g.Expect(containers[i]).To(HaveKeyWithValue("name", name))
	}
	w := &work{Input: Input{Pod: &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "b", ContainerID: "2"}, {Name: "a", ContainerID: "1", RestartCount: 3}}}}}}
	g.Expect(w.runs()).To(Equal("a=1#3,b=2#0"))
}
