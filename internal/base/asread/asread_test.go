// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package asread

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMerge(t *testing.T) {
	read := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", ResourceVersion: "7"}}
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": nil}}, "spec": 1}
	for name, c := range map[string]struct {
		of     *corev1.Pod
		change map[string]any
		want   string
	}{
		"of what was read":          {read, map[string]any{"spec": 1}, `{"metadata":{"uid":"uid","resourceVersion":"7"},"spec":1}`},
		"with metadata":             {read, change, `{"metadata":{"uid":"uid","resourceVersion":"7","annotations":{"a":null}},"spec":1}`},
		"again, of another version": {named, change, `{"metadata":{"uid":"uid","annotations":{"a":null}},"spec":1}`},
	} {
		data, err := Merge(c.change).Data(c.of)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(data).To(MatchJSON(c.want), name)
	}
}
