// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// joining is an Etcd that joins a source of some members, with the condition that says whether its members have joined.
func joining(replicas int64, status string, endpoint string, names ...string) map[string]any {
	var declared []any
	for _, name := range names {
		declared = append(declared, map[string]any{"name": name, "peerUrls": []any{"http://" + name + ":2380"}})
	}
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindEtcd, "metadata": map[string]any{"namespace": "ns", "name": "main"},
		"spec": map[string]any{"replicas": replicas, "etcd": map[string]any{"bootstrapWithExistingCluster": map[string]any{
			"members": declared, "clientEndpoints": []any{endpoint},
		}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": v1alpha1.ConditionBootstrappedWithExistingCluster, "status": status}}},
	}
}

// What is declared of a source stays while members join it. While spec.replicas is 0, none joins: after a migration was given up, the source may
// have replaced members by the time it is joined once more.
func TestTheDeclaredSourceStaysWhileMembersJoin(t *testing.T) {
	d, err := etcds()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	const one, two = "http://s0:2379", "http://s1:2379"
	for name, c := range map[string]struct {
		before, after map[string]any
		admitted      bool
	}{
		"members, in progress":     {joining(3, "False", one, "s0"), joining(3, "False", one, "s0", "s1"), false},
		"endpoints, in progress":   {joining(3, "False", one, "s0"), joining(3, "False", two, "s0"), false},
		"members, joined":          {joining(3, "True", one, "s0"), joining(3, "True", one, "s0", "s1"), true},
		"members, given up":        {joining(0, "False", one, "s0"), joining(0, "False", one, "s0", "s1"), true},
		"endpoints, given up":      {joining(0, "False", one, "s0"), joining(0, "False", two, "s0"), true},
		"members, while giving up": {joining(3, "False", one, "s0"), joining(0, "False", one, "s0", "s1"), false},
		"members, to join again":   {joining(0, "False", one, "s0"), joining(3, "False", one, "s0", "s1"), false},
		"endpoints, to join again": {joining(0, "False", one, "s0"), joining(3, "False", two, "s0"), false},
		"nothing, to join again":   {joining(0, "False", one, "s0"), joining(3, "False", one, "s0"), true},
	} {
		t.Run(name, func(t *testing.T) {
			errs, _ := d.expressions.Validate(t.Context(), nil, d.structural, c.after, c.before, celconfig.RuntimeCELCostBudget)
			if c.admitted {
				NewWithT(t).Expect(errs).To(BeEmpty())
			} else {
				NewWithT(t).Expect(errs.ToAggregate()).To(MatchError(ContainSubstring("cannot be modified while the bootstrap is in progress")))
			}
		})
	}
}
