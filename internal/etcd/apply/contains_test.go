// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

func TestContains(t *testing.T) {
	const live = `
spec:
  replicas: 3
  paused: true
  template:
    containers:
    - name: injected
    - name: etcd
      image: etcd:v1
      command: [etcd, --config-file=a]
      terminationMessagePath: /dev/termination-log
    - name: other
    volumes:
    - name: config
      emptyDir: {}
`
	for _, tc := range []struct {
		name    string
		desired string
		want    bool
	}{
		{"less", `spec: {replicas: 3}`, true},
		{"another value", `spec: {replicas: 1}`, false},
		{"zero", `spec: {replicas: 0}`, false},
		{"false", `spec: {paused: false}`, false},
		{"missing field", `spec: {serviceName: peer}`, false},
		{"empty, and dropped", `spec: {affinity: {}}`, true},
		{"empty, and kept", `spec: {template: {volumes: [{name: config, emptyDir: {}}]}}`, true},
		{"object in a list, among others", `spec: {template: {containers: [{name: etcd, image: "etcd:v1"}]}}`, true},
		{"object in a list, changed", `spec: {template: {containers: [{name: etcd, image: "etcd:v2"}]}}`, false},
		{"object in a list, missing", `spec: {template: {containers: [{name: etcd}, {name: backup}]}}`, false},
		{"objects in the same order", `spec: {template: {containers: [{name: etcd}, {name: other}]}}`, true},
		{"objects in another order", `spec: {template: {containers: [{name: other}, {name: etcd}]}}`, false},
		{"list of values", `spec: {template: {containers: [{command: [etcd, --config-file=a]}]}}`, true},
		{"list of values, shorter", `spec: {template: {containers: [{command: [etcd]}]}}`, false},
		{"another kind of value", `spec: {replicas: {a: b}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Contains(parse(g, live), parse(g, tc.desired))).To(Equal(tc.want))
		})
	}
}

func parse(g Gomega, document string) any {
	var value any
	g.Expect(yaml.Unmarshal([]byte(document), &value)).To(Succeed())
	return value
}
