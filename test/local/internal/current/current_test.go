// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package current

import (
	"strings"
	"testing"
)

func TestChosen(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		chosen      bool
		wantError   bool
	}{
		"nothing set":              {nil, false, false},
		"only KUBECONFIG set":      {map[string]string{"KUBECONFIG": "/home/me/.kube/config"}, false, false},
		"only a confirmation":      {map[string]string{"CLUSTER_CONFIRM": "prod"}, false, false},
		"asked for":                {map[string]string{"CLUSTER": "current"}, true, false},
		"something that is no way": {map[string]string{"CLUSTER": "prod"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := Chosen(func(name string) string { return test.environment[name] })
			if chosen != test.chosen || (err != nil) != test.wantError {
				t.Errorf("got %t, %v", chosen, err)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	prod := Context{Name: "prod", Server: "https://prod.example.com"}
	for name, test := range map[string]struct {
		confirmed string
		terminal  bool
		answer    string
		agreed    bool
	}{
		"no terminal":              {"", false, "prod\n", false},
		"confirmed by variable":    {"prod", false, "", true},
		"another one confirmed":    {"stage", true, "prod\n", false},
		"typed":                    {"", true, "prod\n", true},
		"typed without line break": {"", true, "prod", true},
		"yes is not enough":        {"", true, "yes\n", false},
		"only Enter":               {"", true, "\n", false},
		"end of input":             {"", true, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			err := prod.Confirm("deploy to", test.confirmed, test.terminal, strings.NewReader(test.answer), &said)
			if (err == nil) != test.agreed {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(said.String(), prod.Name) || !strings.Contains(said.String(), prod.Server) {
				t.Errorf("it does not say which cluster: %q", said.String())
			}
		})
	}
}

func TestKindCluster(t *testing.T) {
	for _, test := range []struct {
		context Context
		cluster string
		isKind  bool
	}{
		{Context{Name: "kind-kind", Cluster: "kind-kind"}, "kind", true},
		{Context{Name: "kind-a", Cluster: "kind-a"}, "a", true},
		{Context{Name: "kind-of-prod", Cluster: "prod"}, "", false},
		{Context{Name: "minikube", Cluster: "minikube"}, "", false},
	} {
		cluster, isKind := test.context.KindCluster()
		if isKind != test.isKind || (isKind && cluster != test.cluster) {
			t.Errorf("%v: got %q, %t", test.context, cluster, isKind)
		}
	}
}
