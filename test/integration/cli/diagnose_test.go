// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
)

// There is no node for a port-forward: nothing is measured, nothing is blamed, and what would help is named.
func TestDiagnoseWithoutPortForwards(t *testing.T) {
	p := newPerson(t)
	p.members()
	got := p.run("diagnose", "main", "--for=5s", "--logs")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(
		ContainSubstring("quorum and alarms are not known. No task is running."),
		ContainSubstring("No member was measured, so nothing can be said about its speed."),
		MatchRegexp(`(?s)NOT SEEN\nmetrics: .*What would give it: the right to get and create pods/portforward`),
		ContainSubstring("Not judged, for lack of figures: NoQuorum,"),
		Not(ContainSubstring("To do:")),
	))

	got = p.run("diagnose", "etcd/main", "--for=5s", "-o=json")
	p.Expect(got.code).To(BeZero(), got.String())
	var said struct {
		Etcd      string
		Slow      bool
		Headline  string
		NotJudged []string
	}
	p.Expect(json.Unmarshal([]byte(got.out), &said)).To(Succeed())
	p.Expect(said.Etcd).To(Equal("main"))
	p.Expect(said.Slow).To(BeFalse())
	p.Expect(said.NotJudged).To(ContainElement("SlowDisk"))
}

// Without a StatefulSet no right is missing.
func TestDiagnoseWithoutAStatefulSet(t *testing.T) {
	p := newPerson(t)
	got := p.run("diagnose", "main", "--for=5s")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(ContainSubstring(`What would give it: a StatefulSet; "kubectl etcdtask status main" says why there is none.`), Not(ContainSubstring("the right to"))))
}

// A user who may only view learns which right is missing, and what pods say.
func TestDiagnoseForAViewer(t *testing.T) {
	p := newPerson(t)
	p.members()
	p.allow("viewer", "get", "list", "watch")
	p.allowRules("viewer-of-pods", "viewer", []string{"", "apps", "coordination.k8s.io"}, "get", "list", "watch")
	p.kubeconfig = p.impersonating("viewer")
	got := p.run("diagnose", "main", "--for=5s")
	p.Expect(got.code).To(BeZero(), got.String())
	p.Expect(got.out).To(And(
		MatchRegexp(`NOT SEEN\nmetrics: .*forbidden.* What would give it: the right to get and create pods/portforward`),
		Not(ContainSubstring("Memory,")), ContainSubstring("Not judged"),
	))
}

func TestDiagnoseUsage(t *testing.T) {
	p := newPerson(t)
	for says, args := range map[string][]string{
		"--for is 1s: it must be from 5s to 10m0s": {"diagnose", "main", "--for=1s"},
		"--show-keys needs --hot-prefixes":         {"diagnose", "main", "--show-keys"},
		"it must be json or yaml":                  {"diagnose", "main", "-o=name"},
		"--agent-token-file cannot be read":        {"diagnose", "main", "--agent-token-file=/no/such/file"},
		"is not an Etcd":                           {"diagnose", "etcdtask/main"},
	} {
		got := p.run(args...)
		p.Expect(got.code).To(Equal(2), got.String())
		p.Expect(got.err).To(ContainSubstring(says))
	}
	got := p.run("diagnose", "other")
	p.Expect(got.code).To(Equal(1))
	p.Expect(got.err).To(ContainSubstring(`there is no Etcd "other"`))
}
