// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// Whatever the spec of an Etcd says, its objects can be built, or there is an error that says why; and all of them are in its namespace, and
// named after it or by it.
func FuzzSpec(f *testing.F) {
	for _, in := range []Input{input(3), input(0), everything(), withTLS(PeerTLSOn), withManagedTLS(), withBackup(), withDefaultBackup()} {
		spec, err := json.Marshal(in.Etcd.Spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(spec, int32(3), uint8(0))
	}
	f.Add([]byte("{}"), int32(1), uint8(1))
	f.Add([]byte(`{"backup":{"store":{}}}`), int32(-1), uint8(2))
	f.Add([]byte(`{"etcd":{"clientUrlTls":{}},"sharedConfig":{},"backup":{"store":null,"compression":{"enabled":true}}}`), int32(5), uint8(3))
	f.Fuzz(func(t *testing.T, spec []byte, replicas int32, tls uint8) {
		in := input(replicas % 100)
		in.Etcd.Spec = v1alpha1.EtcdSpec{}
		if json.Unmarshal(spec, &in.Etcd.Spec) != nil {
			return
		}
		in.PeerTLS = []PeerTLS{PeerTLSOff, PeerTLSPrepared, PeerTLSOn}[tls%3]
		in.Capacity, in.Class = in.Etcd.Spec.Capacity(), in.Etcd.Spec.Class()
		objects, err := Objects(in)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		for _, object := range objects {
			content, err := json.Marshal(object)
			if err != nil {
				t.Fatalf("an object that cannot be written: %v", err)
			}
			var o struct {
				Kind     string
				Metadata struct{ Namespace, Name string }
			}
			if err := json.Unmarshal(content, &o); err != nil {
				t.Fatal(err)
			}
			if o.Metadata.Namespace != in.Etcd.Namespace || o.Metadata.Name == "" {
				t.Errorf("%s %s is in namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
			}
		}
	})
}
