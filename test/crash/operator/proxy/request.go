// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
)

var errLost = errors.New("the answer was lost")

// request is what a request asks for.
type request struct {
	verb, kind, namespace, name, subresource string
	// writes: it changes something. Events do not count: nothing is decided on them.
	writes bool
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// parse reads the path /apis/GROUP/VERSION/namespaces/NAMESPACE/KIND/NAME/SUBRESOURCE, or /api/VERSION/... The name of what is created is in the body.
func parse(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	rest := parts[min(2, len(parts)):]
	if parts[0] == "apis" {
		rest = parts[min(3, len(parts)):]
	}
	q := request{verb: verbs[r.Method]}
	if len(rest) > 2 && rest[0] == "namespaces" {
		q.namespace, rest = rest[1], rest[2:]
	}
	for i, into := range []*string{&q.kind, &q.name, &q.subresource} {
		if i < len(rest) {
			*into = rest[i]
		}
	}
	q.writes = q.verb != "" && !slices.Contains([]string{"events", "selfsubjectaccessreviews"}, q.kind)
	if q.writes && q.name == "" {
		q.name = nameIn(r)
	}
	return q
}

// nameIn returns the name in the body of a request, which can be read again.
func nameIn(r *http.Request) string {
	content, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(content))
	if err != nil {
		return ""
	}
	var object struct {
		Metadata struct{ Name, GenerateName string }
	}
	_ = json.Unmarshal(content, &object)
	if object.Metadata.Name == "" {
		return object.Metadata.GenerateName + "*"
	}
	return object.Metadata.Name
}

func (q request) write() disturb.Write {
	verb := q.verb
	if q.subresource != "" {
		verb += " " + q.subresource
	}
	return disturb.Write{Verb: verb, Kind: q.kind, Namespace: q.namespace, Name: q.name}
}

func isWatch(r *http.Request) bool {
	w := r.URL.Query().Get("watch")
	return w == "true" || w == "1"
}

// recorder keeps an answer until it is known whether the operator gets it.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(code int) { r.code = code }

func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func (r *recorder) copyTo(w http.ResponseWriter) {
	for k, v := range r.header {
		w.Header()[k] = v
	}
	if r.code != 0 {
		w.WriteHeader(r.code)
	}
	_, _ = w.Write(r.body.Bytes())
}
