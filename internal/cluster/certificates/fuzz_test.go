// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Whatever is in the Secrets of an Etcd, it is usable, or a problem of a Secret that is named.
func FuzzMaterial(f *testing.F) {
	ca, err := certs.NewCA("ca")
	if err != nil {
		f.Fatal(err)
	}
	server, err := ca.Issue([]string{"m-0"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ca.PEM, server.Certificate, server.Key)
	f.Add(ca.PEM, server.Key, server.Certificate)
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add(append(server.Certificate, ca.PEM...), append(server.Certificate, server.Certificate...), server.Key)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n"))
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bundle, certificate, key []byte) {
		reader := fake.NewClientBuilder().WithScheme(scheme)
		for _, name := range []string{"ca", "server", "client"} {
			reader.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{
				"ca.crt": bundle, "bundle.crt": bundle, "tls.crt": certificate, "tls.key": key,
			}})
		}
		m, err := Read(t.Context(), reader.Build(), withTLS())
		if err != nil {
			problems(t, err)
			return
		}
		facts, err := m.Check([]string{"m-0"}, time.Now())
		if err != nil {
			problems(t, err)
			return
		}
		if facts.Authorities == "" || facts.ExpiresIn == "" || facts.Expires.Before(time.Now()) {
			t.Errorf("usable, with %+v", facts)
		}
	})
}

func problems(t *testing.T, err error) {
	t.Helper()
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		var problem *Problem
		if !errors.As(err, &problem) || problem.Secret == "" || !utf8.ValidString(err.Error()) {
			t.Errorf("not a problem of a Secret: %q", err)
		}
	}
}
