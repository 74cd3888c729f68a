// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
)

var errLost = errors.New("the answer was lost")

// request is what a request asks for.
type request struct {
	verb, kind, namespace, name, subresource string
	// stage is that of disturb.Write.
	stage string
	// writes: it changes something.
	writes bool
}

// noWrites are what is created and changes nothing: events, on which nothing is decided, and questions. By selfsubjectreviews the operator
// reads the time of the API server, which it does when its own clock may be off or the machine is slow.
var noWrites = []string{"events", "selfsubjectaccessreviews", "selfsubjectreviews"}

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
	q.writes = q.verb != "" && !slices.Contains(noWrites, q.kind)
	if q.writes && q.name == "" {
		q.name = nameIn(r)
	}
	if q.writes && q.kind == "etcdoperatortasks" && q.subresource == "status" {
		q.stage = stageIn(r)
	}
	return q
}

// nameIn returns the name in the body of a request.
func nameIn(r *http.Request) string {
	var object struct {
		Metadata struct{ Name, GenerateName string }
	}
	decode(r, &object)
	if object.Metadata.Name == "" {
		return object.Metadata.GenerateName + "*"
	}
	return object.Metadata.Name
}

// stageIn returns the stage of the task in the body of a request.
func stageIn(r *http.Request) string {
	var task v1alpha1.EtcdOperatorTask
	decode(r, &task)
	stage := []string{string(task.Status.State)}
	if rollout := task.Status.Rollout; rollout != nil {
		stage = append(stage, string(rollout.Phase), fmt.Sprintf("%d updated", rollout.UpdatedReplicas))
	}
	if recovery := task.Status.Recovery; recovery != nil {
		stage = append(stage, string(recovery.Phase))
	}
	return strings.Join(slices.DeleteFunc(stage, func(s string) bool { return s == "" }), ", ")
}

// decode decodes the body of a request, which can be read again.
func decode(r *http.Request, into any) {
	content, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(content))
	if err == nil {
		_ = json.Unmarshal(content, into)
	}
}

func (q request) write() disturb.Write {
	verb := q.verb
	if q.subresource != "" {
		verb += " " + q.subresource
	}
	return disturb.Write{Verb: verb, Kind: q.kind, Namespace: q.namespace, Name: q.name, Stage: q.stage}
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
