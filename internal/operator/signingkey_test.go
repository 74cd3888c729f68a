// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var keyAt = client.ObjectKey{Namespace: "foreman", Name: auth.KeySecret}

func secretWith(seed string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: keyAt.Namespace, Name: keyAt.Name}}
	if seed != "" {
		s.Data = map[string][]byte{auth.KeySeed: []byte(seed)}
	}
	return s
}

// The key survives a restart of the operator, and all replicas have the same key.
func TestSigningKeyIsKept(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().WithObjects(secretWith("")).Build()
	first, err := loadKey(t.Context(), c, keyAt)
	g.Expect(err).NotTo(HaveOccurred())
	second, err := loadKey(t.Context(), c, keyAt)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(Equal(first))
}

func TestSigningKeyOfAFasterReplica(t *testing.T) {
	g := NewWithT(t)
	seed := strings.Repeat("s", ed25519.SeedSize)
	c := fake.NewClientBuilder().WithObjects(secretWith("")).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			current := &corev1.Secret{}
			g.Expect(c.Get(ctx, keyAt, current)).To(Succeed())
			current.Data = map[string][]byte{auth.KeySeed: []byte(seed)}
			g.Expect(c.Update(ctx, current)).To(Succeed())
			return c.Update(ctx, o)
		},
	}).Build()
	key, err := loadKey(t.Context(), c, keyAt)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal(ed25519.NewKeyFromSeed([]byte(seed))))
}

// The operator starts without the Secret, but not with an invalid one, which it may not overwrite.
func TestSigningKeyIsMissing(t *testing.T) {
	g := NewWithT(t)
	forbidden := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, auth.KeySecret, errors.New("no"))
	}}
	for _, c := range []client.Client{fake.NewClientBuilder().Build(), fake.NewClientBuilder().WithInterceptorFuncs(forbidden).Build()} {
		key, err := loadKey(t.Context(), c, keyAt)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(key).To(HaveLen(ed25519.PrivateKeySize))
	}
	_, err := loadKey(t.Context(), fake.NewClientBuilder().WithObjects(secretWith("short")).Build(), keyAt)
	g.Expect(err).To(MatchError(And(ContainSubstring("is not a key"), Not(ContainSubstring("short")))))
}
