// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A status that is written is valid under etcd-druid's schema: it has every required field, each of its type.
func TestStatusIsValidUpstream(t *testing.T) {
	data, err := os.ReadFile("../../../test/integration/crd/testdata/etcds.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts struct{ Fields map[string]map[string]any }
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	away := clustertest.Healthy(3)
	clustertest.Away(away, 1, v1alpha1.ClassMissing, "")
	failing := observed(served(), away, later)
	failing.Failures = []Failure{{Code: v1alpha1.ErrApply, Err: errors.New("scaling: no")}}
	withSet := observed(served(), clustertest.Healthy(3), later)
	withSet.StatefulSet = &appsv1.StatefulSet{}
	withSet.StatefulSet.Name = "etcd-main"
	suspended := served()
	suspended.Generation, suspended.Annotations = 2, map[string]string{v1alpha1.AnnotationSuspendSpecReconcile: ""}
	for name, o := range map[string]Input{
		"healthy": withSet, "failing": failing, "suspended": unsettled(suspended, away, later), "new": observed(&v1alpha1.Etcd{}, nil, noon),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			encoded, err := json.Marshal(Next(o))
			g.Expect(err).NotTo(HaveOccurred())
			var status any
			g.Expect(json.Unmarshal(encoded, &status)).To(Succeed())
			validate(t, ".status", status, facts.Fields)
		})
	}
	g := NewWithT(t)
	healthy := Next(withSet)
	g.Expect(healthy.Selector).To(Equal("app.kubernetes.io/component=etcd-statefulset,app.kubernetes.io/managed-by=etcd-foreman,app.kubernetes.io/part-of=etcd-main"))
	g.Expect(healthy.Etcd).To(HaveValue(Equal(v1alpha1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "etcd-main"})))
	g.Expect(healthy.PeerURLTLSEnabled).To(HaveValue(BeFalse()))
	g.Expect(healthy.Members).To(ContainElements(HaveField("Role", v1alpha1.MemberRoleLeader), HaveField("Role", v1alpha1.MemberRoleMember)))
	g.Expect(healthy.LastOperation).To(HaveValue(HaveField("Type", v1alpha1.OperationTypeCreate)))
}

// peerUrlTLSEnabled is true once every pod that there is serves peers over TLS, and stays while pods are replaced.
func TestPeerTLSEnabled(t *testing.T) {
	g := NewWithT(t)
	etcd, s := served(), clustertest.Healthy(3)
	enabled := func() *bool {
		etcd.Status = Next(observed(etcd, s, later))
		return etcd.Status.PeerURLTLSEnabled
	}
	g.Expect(enabled()).To(HaveValue(BeFalse()))
	for i := range 3 {
		g.Expect(enabled()).To(HaveValue(BeFalse()))
		s.Ordinals[i].Pod.PeerTLS = v1alpha1.TLSOn
	}
	g.Expect(enabled()).To(HaveValue(BeTrue()))
	s.Ordinals[1].Pod = nil
	g.Expect(enabled()).To(HaveValue(BeTrue()), "its successor will do the same")
	for i := range 3 {
		s.Ordinals[i].Pod = nil
	}
	g.Expect(enabled()).To(HaveValue(BeTrue()), "nothing is known")
}

// validate reports what of a value is not as the facts say.
func validate(t *testing.T, at string, value any, facts map[string]map[string]any) {
	t.Helper()
	fact, known := facts[at]
	if !known {
		return // an addition
	}
	is := map[string]string{"map[string]interface {}": "object", "[]interface {}": "array", "string": "string", "float64": "integer", "bool": "boolean"}[fmt.Sprintf("%T", value)]
	if is != fact["type"] {
		t.Errorf("%s is a %s, and etcd-druid's schema wants a %v", at, is, fact["type"])
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			validate(t, at+"."+name, inner, facts)
		}
		for path, fact := range facts {
			name, beneath := strings.CutPrefix(path, at+".")
			if _, has := value[name]; beneath && fact["required"] == true && !strings.ContainsAny(name, ".[{") && !has {
				t.Errorf("%s is required by etcd-druid's schema", path)
			}
		}
	case []any:
		for _, inner := range value {
			validate(t, at+"[]", inner, facts)
		}
	}
}

// A condition is updated when it changes, and has a transition only when its status does. One of an earlier version gets its
// lastUpdateTime.
func TestTimesOfConditions(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	of := func(status v1alpha1.EtcdStatus) v1alpha1.Condition {
		for _, c := range status.Conditions {
			if c.Type == v1alpha1.ConditionAllMembersReady {
				return c
			}
		}
		t.Fatal("no such condition")
		return v1alpha1.Condition{}
	}
	g.Expect(of(Next(observed(etcd, clustertest.Healthy(3), later)))).To(Equal(of(etcd.Status)), "nothing has changed")
	one := clustertest.Healthy(3)
	clustertest.Away(one, 1, v1alpha1.ClassMissing, "")
	etcd.Status = Next(observed(etcd, one, noon))
	clustertest.Away(one, 2, v1alpha1.ClassMissing, "")
	two := of(Next(observed(etcd, one, later)))
	g.Expect(two.LastTransitionTime).To(Equal(noon))
	g.Expect(two.LastUpdateTime).To(Equal(later))
	for i := range etcd.Status.Conditions {
		etcd.Status.Conditions[i].LastUpdateTime = metav1.Time{}
	}
	for _, c := range Next(observed(etcd, one, later)).Conditions {
		g.Expect(c.LastUpdateTime.IsZero()).To(BeFalse(), c.Type)
	}
}
