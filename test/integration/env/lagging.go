// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/etcdtasks"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Lagging is the client of an operator whose cache is behind: of some kinds it shows what existed when it was made. Every
// other kind it reads from the API server, to which it writes.
type Lagging struct {
	client.Client
	past client.Reader
	// lags are the kinds of which the past is shown.
	lags map[string]bool
}

// Lag makes a client that stays behind, from now on, with the kinds of the given lists.
func (e *Env) Lag(t testing.TB, namespace string, kinds ...client.ObjectList) *Lagging {
	t.Helper()
	l := &Lagging{Client: e.Client, lags: map[string]bool{}}
	past := fake.NewClientBuilder().WithScheme(e.Scheme)
	if err := etcdtasks.Index(t.Context(), indexer{past}); err != nil {
		t.Fatal(err)
	}
	for _, list := range kinds {
		if err := e.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatalf("listing what a lagging cache shows: %v", err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		past.WithRuntimeObjects(objects...)
		l.lags[l.kind(list)] = true
	}
	l.past = past.Build()
	return l
}

// Get reads from the past what lags.
func (l *Lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if l.lags[l.kind(into)] {
		return l.past.Get(ctx, key, into, options...)
	}
	return l.Client.Get(ctx, key, into, options...)
}

// List lists from the past what lags.
func (l *Lagging) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if l.lags[l.kind(into)] {
		return l.past.List(ctx, into, options...)
	}
	return l.Client.List(ctx, into, options...)
}

// kind of an object, or of those in a list.
func (l *Lagging) kind(object runtime.Object) string {
	kind, err := apiutil.GVKForObject(object, l.Scheme())
	if err != nil {
		panic(fmt.Sprintf("a kind that the scheme does not have: %v", err))
	}
	return strings.TrimSuffix(kind.Kind, "List")
}

// indexer adds an index to a fake client.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}
