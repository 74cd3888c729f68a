// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Only an object that certainly does not exist is nil without an error.
func TestGet(t *testing.T) {
	g := NewWithT(t)
	var broken error
	reader := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if broken != nil {
				return broken
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()

	found, err := Get[corev1.Node](t.Context(), reader, "node", client.ObjectKey{Name: "a"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Name).To(Equal("a"))

	missing, err := Get[corev1.Node](t.Context(), reader, "node", client.ObjectKey{Name: "b"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(missing).To(BeNil())

	broken = errors.New("no connection")
	_, err = Get[corev1.Node](t.Context(), reader, "node", client.ObjectKey{Name: "a"})
	g.Expect(err).To(MatchError("reading node a: no connection"), "of an object without a namespace")
	unread, err := Get[corev1.Pod](t.Context(), reader, "pod", client.ObjectKey{Namespace: "ns", Name: "p"})
	g.Expect(err).To(MatchError("reading pod ns/p: no connection"))
	g.Expect(unread).To(BeNil())
}
