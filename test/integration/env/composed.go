// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"net/http"

	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Start starts an operator for the namespace, in the process of the test: some of its controllers, or all. It runs until stop is called or the
// test ends.
func (c *Cluster) Start(controllers []composed.Controller, changes ...composition.Change) (stop func()) {
	c.T.Helper()
	return c.StartWith(c.Env.ForOperator(), controllers, func(*composed.Operator) {}, changes...)
}

// StartWith is Start with another configuration of clients. Before its controllers are added to a manager, the operator is passed to a function.
func (c *Cluster) StartWith(as *rest.Config, controllers []composed.Controller, before func(*composed.Operator), changes ...composition.Change) (stop func()) {
	c.T.Helper()
	return c.Env.StartManager(c.T, as, c.Namespace, func(mgr ctrl.Manager) error {
		o := composition.New(c.T, composition.With(c.Members, clock.RealClock{}).Of(mgr), changes...)
		before(o)
		return o.Setup(c.T.Context(), mgr, controllers...)
	})
}

// Through returns ForOperator, for requests that go through a function.
func (e *Env) Through(pass func(next http.RoundTripper, r *http.Request) (*http.Response, error)) *rest.Config {
	c := e.ForOperator()
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return pass(next, r) })
	})
	return c
}

// roundTripper is an http.RoundTripper that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
