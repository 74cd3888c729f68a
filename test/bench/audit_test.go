// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is a line of an audit log.
func entry(user, stage, verb, namespace, resource, subresource string) string {
	return fmt.Sprintf(`{"stage":%q,"verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"subresource":%q,"namespace":%q}}`+"\n",
		stage, verb, user, resource, subresource, namespace)
}

func exampleLog() string {
	const done = "ResponseComplete"
	return entry(operatorUser, done, "get", "bench-3", "pods", "") +
		entry(operatorUser, done, "delete", "bench-3", "pods", "") +
		entry(operatorUser, done, "update", "bench-3", "etcdoperatortasks", "status") +
		entry(operatorUser, done, "update", "bench-3", "etcdoperatortasks", "status") +
		entry(operatorUser, "ResponseStarted", "watch", "bench-3", "pods", "") +
		entry(operatorUser, done, "watch", "bench-3", "pods", "") +
		entry(operatorUser, done, "patch", "bench-3", "leases", "") +
		entry(operatorUser, done, "create", "bench-3", "events", "") +
		entry(operatorUser, done, "delete", "another", "pods", "") +
		entry("another-user", done, "delete", "bench-3", "pods", "") +
		`{"stage":"ResponseComplete","verb":"get","user":{"username":"` + operatorUser + `"},"requestURI":"/api"}` + "\n"
}

func TestCountRequests(t *testing.T) {
	got, err := countRequests(strings.NewReader(exampleLog()+`{"stage":"Respon`), "bench-3")
	if err != nil {
		t.Fatal(err)
	}
	want := requests{{"get", "pods"}: 1, {"delete", "pods"}: 1, {"update", "etcdoperatortasks/status"}: 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.total() != 4 || got.writes().total() != 3 {
		t.Errorf("%d requests, %d writes", got.total(), got.writes().total())
	}
	if _, err := countRequests(strings.NewReader("no JSON\n"), "bench-3"); err == nil {
		t.Error("an invalid line is no error")
	}
}

func TestAuditBeginsWhereTheLogEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(exampleLog()), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &audit{path: path, namespace: "bench-3", offset: int64(len(exampleLog()))}
	if err := os.WriteFile(path, []byte(exampleLog()+entry(operatorUser, "ResponseComplete", "list", "bench-3", "pods", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := a.read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(requests{{"list", "pods"}: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
