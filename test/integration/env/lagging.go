// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Lagging is the client of an operator with a stale cache: it shows some kinds as they were when it was created. It reads
// every other kind from the API server, to which it also writes.
type Lagging struct {
	client.Client
	past client.Reader
	// lags are the kinds that the client shows from the past.
	lags map[string]bool
}

// Lag returns a client that from now on does not see changes of the kinds of the given lists.
func (e *Env) Lag(t testing.TB, namespace string, kinds ...client.ObjectList) *Lagging {
	t.Helper()
	l := &Lagging{Client: e.Client, lags: map[string]bool{}}
	past := fake.NewClientBuilder().WithScheme(e.Scheme)
	if err := etcdtasks.Index(t.Context(), indexer{past}); err != nil {
		t.Fatal(err)
	}
	for _, list := range kinds {
		if err := e.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatalf("listing the contents of a stale cache: %v", err)
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

// Get reads lagging kinds from the past.
func (l *Lagging) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if l.lags[l.kind(into)] {
		return l.past.Get(ctx, key, into, options...)
	}
	return l.Client.Get(ctx, key, into, options...)
}

// List lists lagging kinds from the past.
func (l *Lagging) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if l.lags[l.kind(into)] {
		return l.past.List(ctx, into, options...)
	}
	return l.Client.List(ctx, into, options...)
}

// kind returns the kind of an object, or of the items of a list.
func (l *Lagging) kind(object runtime.Object) string {
	kind, err := apiutil.GVKForObject(object, l.Scheme())
	if err != nil {
		panic(fmt.Sprintf("the scheme does not have the kind: %v", err))
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
