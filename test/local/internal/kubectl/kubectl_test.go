// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A kubectl that prints how it was called stands in for the real one.
func newFake(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho \"$@\"\necho KUBECONFIG=$KUBECONFIG\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheUsersKubeconfigIsUsedOnlyOnRequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/me/.kube/config")
	fake := newFake(t)
	for name, test := range map[string]struct {
		kubectl Kubectl
		want    string
	}{
		"local Kubernetes": {Kubectl{Path: fake, Kubeconfig: "/repo/.local/kubeconfig"}, "--kubeconfig=/repo/.local/kubeconfig get pods\nKUBECONFIG=\n"},
		"current context":  {Kubectl{Path: fake, Context: "prod"}, "--context=prod get pods\nKUBECONFIG=/home/me/.kube/config\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.kubectl.Run(context.Background(), "get", "pods")
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestOnlyUnknownKinds(t *testing.T) {
	const unknown = `error: resource mapping not found for name: "a" namespace: "b" from "STDIN": no matches for kind "Etcd" in version "v1"` + "\nensure CRDs are installed first"
	for said, want := range map[string]bool{unknown: true, "": false, unknown + "\nUnable to connect to the server": false} {
		if got := (&Error{Said: said}).onlyUnknownKinds(); got != want {
			t.Errorf("%q: got %t", said, got)
		}
	}
}

func TestErrorSaysWhatKubectlSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubectl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no such pod >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Kubectl{Path: path}.Run(context.Background(), "get", "pod", "x")
	if err == nil || !strings.Contains(err.Error(), "kubectl get pod x") || !strings.Contains(err.Error(), "no such pod") {
		t.Errorf("got error %v", err)
	}
}
