// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// guard refuses all writes but those of an operator in executor mode. Its roles do not grant others either; this holds when
// somebody has granted more, and for code that is to come.
type guard struct {
	next http.RoundTripper
	// namespace is the operator's own.
	namespace string
}

// written are the methods of writes by group, resource and subresource. Collections are never deleted.
var written = map[string][]string{
	"druid.gardener.cloud/etcdoperatortasks":        {http.MethodPost, http.MethodPatch, http.MethodDelete},
	"druid.gardener.cloud/etcdoperatortasks/status": {http.MethodPut},
	"/pods":                                     {http.MethodPatch, http.MethodDelete},
	"/pods/eviction":                            {http.MethodPost},
	"apps/statefulsets/status":                  {http.MethodPatch},
	"batch/jobs":                                {http.MethodPost, http.MethodDelete},
	"events.k8s.io/events":                      {http.MethodPost, http.MethodPatch},
	"authentication.k8s.io/tokenreviews":        {http.MethodPost},
	"authorization.k8s.io/subjectaccessreviews": {http.MethodPost},
}

// writtenAt are the methods of writes to objects of the operator itself, by group, resource and name.
var writtenAt = map[string][]string{
	"coordination.k8s.io/leases/" + leaseName:                                   {http.MethodPut},
	"/secrets/" + webhookSecret:                                                 {http.MethodPut},
	"admissionregistration.k8s.io/mutatingwebhookconfigurations/" + webhookName: {http.MethodPut},
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
	// A Lease is created under a name that the path does not have.
	return slices.Contains(writtenAt[o.resource+"/"+o.name], r.Method) ||
		r.Method == http.MethodPost && o.namespace == g.namespace && (o.resource == "coordination.k8s.io/leases" || o.resource == "/events")
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
