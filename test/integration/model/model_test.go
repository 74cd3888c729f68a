// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package model holds the models of the simulation against what they are models of: the same requests, to a real API server and to
// test/simulation/apiserver, get the same answers.
package model

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var real *env.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m, &real)) }

func TestModelAnswersAsTheServer(t *testing.T) {
	model := apiserver.New(real.Scheme, time.Now).Direct()
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			namespace := "model-" + strings.ReplaceAll(c.name, " ", "-")
			if err := real.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
				t.Fatal(err)
			}
			want, got := play(t, real.Client, namespace, c.do), play(t, model, namespace, c.do)
			if !slices.Equal(want, got) {
				t.Errorf("the server answers\n\t%s\nand the model\n\t%s", strings.Join(want, "\n\t"), strings.Join(got, "\n\t"))
			}
			t.Log(strings.Join(want, "; "))
		})
	}
}

func play(t *testing.T, c client.Client, namespace string, do func(*player)) []string {
	t.Helper()
	p := &player{ctx: t.Context(), client: c, namespace: namespace}
	do(p)
	return p.answers
}
