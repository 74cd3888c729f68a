// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// page documents every field of an Etcd's spec.
const page = "../../../docs/etcd.md"

// documented are the fields on the page, with what it says of whether a change replaces the pods.
func documented(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\|.*\\| (yes|no|fixed) \\|$").FindAllStringSubmatch(string(data), -1) {
		fields[row[1]] = row[2]
	}
	return fields
}

// What is in the schema is on the page, and the other way round.
func TestEveryFieldIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../config/crd/etcd/druid.gardener.cloud_etcds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema openAPISchema }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	onPage := documented(t)
	inSchema := map[string]bool{}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].walk("", onPage, inSchema)
	for field := range inSchema {
		if onPage[field] == "" {
			t.Errorf("%s is not documented", field)
		}
	}
	for field := range onPage {
		if !inSchema[field] {
			t.Errorf("%s is documented, and not in the schema", field)
		}
	}
}

// openAPISchema is what matters of an OpenAPI schema.
type openAPISchema struct {
	Properties map[string]openAPISchema
}

// walk finds the fields beneath a path. One that is on the page is documented with all that is beneath it.
func (s openAPISchema) walk(path string, onPage map[string]string, into map[string]bool) {
	if onPage[path] != "" || len(s.Properties) == 0 {
		into[path] = true
		return
	}
	for name, property := range s.Properties {
		property.walk(strings.TrimPrefix(path+"."+name, "."), onPage, into)
	}
}

// What the page says of a field is so: the template of the pods is another, or it is the same.
func TestWhatThePageSaysOfPods(t *testing.T) {
	template := func(in Input) string {
		set, err := statefulSet(in)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.Marshal(set.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	samples := []v1alpha1.EtcdSpec{everything().Etcd.Spec, withTLS(PeerTLSOn).Etcd.Spec, withBackup().Etcd.Spec, {ManagedTLS: &v1alpha1.ManagedTLS{
		IssuerRef: &v1alpha1.IssuerReference{Name: "clients"}, PeerIssuerRef: &v1alpha1.IssuerReference{Name: "peers"},
		Connections: []v1alpha1.TLSConnection{v1alpha1.TLSClients}, ServerDNSNames: []string{"etcd.example.com"},
		Duration: &metav1.Duration{Duration: 1}, RenewBefore: &metav1.Duration{Duration: 1}, CADuration: &metav1.Duration{Duration: 1}, CARenewBefore: &metav1.Duration{Duration: 1},
	}}}
	for field, says := range documented(t) {
		if says == "fixed" {
			continue
		}
		before, after := withDefaultBackup(), withDefaultBackup()
		if field == "backup.maxBackupsLimitBasedGC" {
			// It means nothing with the other policy.
			for _, in := range []Input{before, after} {
				set(t, "backup.garbageCollectionPolicy", in.Etcd, samples)
			}
		}
		if strings.HasPrefix(field, "managedTLS.") {
			for _, in := range []Input{before, after} {
				in.Etcd.Spec.ManagedTLS = &v1alpha1.ManagedTLS{}
			}
		}
		set(t, field, after.Etcd, samples)
		after.Replicas, after.Capacity, after.Retention = after.Etcd.Spec.Replicas, after.Etcd.Spec.Capacity(), after.Etcd.Spec.Retention()
		if field == "etcd.peerUrlTls" {
			after.PeerTLS = PeerTLSOn
		}
		if replaces := template(before) != template(after); replaces != (says == "yes") {
			t.Errorf("%s replaces pods: %v, and the page says %s", field, replaces, says)
		}
	}
}

// set sets one field of an Etcd to what the first of the samples has that has it.
func set(t *testing.T, field string, etcd *v1alpha1.Etcd, samples []v1alpha1.EtcdSpec) {
	t.Helper()
	into := find(t, reflect.ValueOf(&etcd.Spec).Elem(), field)
	for i := range samples {
		// A copy: looking for a field makes what it is in.
		sample := samples[i].DeepCopy()
		if from := find(t, reflect.ValueOf(sample).Elem(), field); !from.IsZero() {
			if !reflect.DeepEqual(from.Interface(), into.Interface()) {
				into.Set(from)
				return
			}
		}
	}
	t.Fatalf("no sample has %s", field)
}

// find finds a field by its path, and makes what it is in.
func find(t *testing.T, v reflect.Value, path string) reflect.Value {
	t.Helper()
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		found := false
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
				v, found = v.Field(i), true
				break
			}
		}
		if !found {
			t.Fatalf("there is no field %s of %s", name, path)
		}
	}
	return v
}
