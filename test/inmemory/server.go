// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package inmemory is a cluster in memory, for tests that run the operator thousands of times: an API server, the controllers of
// StatefulSets and Jobs, a kubelet, and members. It is single-threaded, and what happens next is decided by the test. The API server is
// that of the simulation; test/integration has the real one.
package inmemory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// NewScheme returns a scheme with the types of Kubernetes and this project.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// server is the API server, and a client of it whose requests are carried out at once.
type server struct {
	*apiserver.Client
	now func() time.Time
	// mu excludes requests from each other: an operator makes some at a time.
	mu sync.Mutex
	// writes counts the changes, and removed the removals of pods, by name.
	writes  int
	removed map[string]int
}

func newServer(scheme *runtime.Scheme, now func() time.Time) (*server, error) {
	api := apiserver.New(scheme, now)
	s := &server{now: now, removed: map[string]int{}}
	s.Client = &apiserver.Client{Server: api, Reads: api.Live(), Through: func(_ context.Context, _ apiserver.Request, do func() error) error { return s.carry(do) }}
	api.Watch = func(c apiserver.Change) {
		s.writes++
		if c.Kind == "Pod" && c.After == nil {
			s.removed[c.Key.Name]++
		}
	}
	return s, etcdtasks.Index(context.Background(), api)
}

// carry carries a request out.
func (s *server) carry(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}
