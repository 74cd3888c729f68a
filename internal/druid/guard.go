// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package druid is what an operator does because of etcd-druid: it runs tasks for the Etcds of an etcd-druid beside it (executor
// mode), and carries out the task types of etcd-druid. Nothing imports it but the wiring: without this folder and
// internal/operator/druid.go, the operator builds.
package druid

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/client-go/rest"
)

// Restrict has clients of a kubeconfig refuse all writes but those of an operator in executor mode. Its roles do not grant others
// either; this also holds if an administrator grants more. The lease is that of its leader election, in its own namespace.
func Restrict(kubeconfig *rest.Config, namespace, lease string) {
	kubeconfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return guard{next, namespace, lease} })
}

type guard struct {
	next             http.RoundTripper
	namespace, lease string
}

// written are the methods of writes by group, resource and subresource. Collections are never deleted.
var written = map[string][]string{
	"druid.gardener.cloud/etcdoperatortasks":        {http.MethodPost, http.MethodPatch, http.MethodDelete},
	"druid.gardener.cloud/etcdoperatortasks/status": {http.MethodPut},
	"/pods":                    {http.MethodPatch, http.MethodDelete},
	"/pods/eviction":           {http.MethodPost},
	"apps/statefulsets/status": {http.MethodPatch},
	"druid.gardener.cloud/etcdfleetpolicies/status": {http.MethodPatch},
	"batch/jobs":                                {http.MethodPost, http.MethodDelete},
	"events.k8s.io/events":                      {http.MethodPost, http.MethodPatch},
	"authentication.k8s.io/tokenreviews":        {http.MethodPost},
	"authorization.k8s.io/subjectaccessreviews": {http.MethodPost},
}

// updates reports whether an object, by group, resource and name, is the operator's own, which it updates.
func (g guard) updates(object string) bool {
	switch object {
	case "coordination.k8s.io/leases/" + g.lease, "/secrets/" + webhookSecret, "/configmaps/" + v1alpha1.FleetConfigMap:
		return true
	}
	return false
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !g.allows(r) {
		return nil, fmt.Errorf("refusing to send %s %s: an operator in executor mode does not write this", r.Method, r.URL.Path)
	}
	return g.next.RoundTrip(r)
}

func (g guard) allows(r *http.Request) bool {
	o := parse(r.URL.Path)
	if slices.Contains(written[o.resource], r.Method) {
		return o.name != "" || r.Method == http.MethodPost
	}
	if o.namespace != "" && o.namespace != g.namespace {
		return false
	}
	// A Lease, and the ledger of the fleet, are created under a name that the path does not have.
	return r.Method == http.MethodPut && g.updates(o.resource+"/"+o.name) ||
		r.Method == http.MethodPost && o.namespace == g.namespace && slices.Contains([]string{"coordination.k8s.io/leases", "/configmaps", "/events"}, o.resource)
}

// object is what a request to the API server is for.
type object struct {
	// resource is group/resource or group/resource/subresource.
	resource, namespace, name string
}

// parse reads the path of a request. One that it cannot read is for no resource.
func parse(path string) (o object) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
		o.resource = "/"
	case len(parts) >= 4 && parts[0] == "apis":
		o.resource = parts[1] + "/"
		parts = parts[3:]
	default:
		return object{}
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		o.namespace, parts = parts[1], parts[2:]
	}
	o.resource += parts[0]
	if len(parts) > 1 {
		o.name = parts[1]
	}
	if len(parts) > 2 {
		o.resource += "/" + strings.Join(parts[2:], "/")
	}
	return o
}
