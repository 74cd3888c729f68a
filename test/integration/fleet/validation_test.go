// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The API server refuses what cannot be meant, and nothing falls back to a default.
func TestPoliciesThatAreRefused(t *testing.T) {
	for spec, says := range map[string]string{
		"{namespaceSelector: {}}": "",
		"{namespaceSelector: {}, maxConcurrent: 0, canary: {count: 0}}": "",
		"{namespaceSelector: {}, maxConcurrent: 5}":                     "",
		`{namespaceSelector: {}, maxConcurrent: "100%"}`:                "",
		`{namespaceSelector: {}, windows: [{schedule: "0 22 * * 6", duration: 6h, timeZone: Europe/Berlin}], except: [{schedule: "0 0 24 12 *", duration: 72h}], atEnd: Pause, orderBy: example.com/wave}`: "",
		"{}": "namespaceSelector",
		"{namespaceSelector: {}, maxConcurrent: -1}":                                                       "maxConcurrent must be",
		`{namespaceSelector: {}, maxConcurrent: "101%"}`:                                                   "maxConcurrent must be",
		`{namespaceSelector: {}, maxConcurrent: "5"}`:                                                      "maxConcurrent must be",
		`{namespaceSelector: {}, maxConcurrent: "1.5%"}`:                                                   "maxConcurrent must be",
		"{namespaceSelector: {}, maxFailures: -1}":                                                         "maxFailures",
		"{namespaceSelector: {}, soak: -1s}":                                                               "soak must be",
		"{namespaceSelector: {}, soak: 200h}":                                                              "soak must be",
		"{namespaceSelector: {}, soak: soon}":                                                              "soak must be",
		"{namespaceSelector: {}, canary: {soak: -1s}}":                                                     "soak must be",
		"{namespaceSelector: {}, canary: {count: -1}}":                                                     "canary.count",
		"{namespaceSelector: {}, atEnd: Stop}":                                                             "atEnd",
		"{namespaceSelector: {}, orderBy: 'a b'}":                                                          "orderBy",
		`{namespaceSelector: {}, windows: [{schedule: "@daily", duration: 1h}]}`:                           "schedule",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * *", duration: 1h}]}`:                          "schedule",
		`{namespaceSelector: {}, windows: [{schedule: "TZ=UTC 0 * * *", duration: 1h}]}`:                   "schedule",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * * *", duration: 1s}]}`:                        "duration must be",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * * *", duration: 169h}]}`:                      "duration must be",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * * *", duration: 1h, timeZone: Europe/Bonn}]}`: "timeZone",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * * *", duration: 1h, timeZone: Local}]}`:       "timeZone",
		`{namespaceSelector: {}, windows: [{schedule: "0 0 * * *", duration: 1h, timeZone: "+01:00"}]}`:    "timeZone",
	} {
		t.Run(spec, func(t *testing.T) {
			g := NewWithT(t)
			o := &unstructured.Unstructured{Object: map[string]any{}}
			var content map[string]any
			g.Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
			o.Object["spec"] = content
			o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdFleetPolicy))
			o.SetName("validated")
			err := testEnv.Client.Create(t.Context(), o, client.DryRunAll)
			if says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(says)))
		})
	}
}

// What is not said is what docs/fleet.md says.
func TestDefaultsOfAPolicy(t *testing.T) {
	g := NewWithT(t)
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(t.Name())}}
	g.Expect(testEnv.Client.Create(t.Context(), p, client.DryRunAll)).To(Succeed())
	g.Expect(p.Spec.MaxConcurrent.String()).To(Equal("10%"))
	g.Expect(p.Spec.MaxFailures).To(BeZero())
	g.Expect(p.Spec.Canary.Count).To(HaveValue(Equal(int32(1))))
	g.Expect(p.Spec.Soak.Duration.String()).To(Equal("5m0s"))
	g.Expect(p.Spec.AtEnd).To(Equal(v1alpha1.FleetFinish))
}
