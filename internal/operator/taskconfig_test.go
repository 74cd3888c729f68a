// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// configs are seeds, of which each is valid for some task type.
var configs = []string{
	"", "{}", "null", "pollInterval: 1s", "timeout: 5m", "type: full", "type: delta\ntimeout: 1m", "restart: true", "targetRevision: main-5d",
	"gracePeriod: 30s", "member: main-0", "survivor: main-1\nallowDataLoss: true", "source: Backup", "operations: [Compact, Defragment]",
	"sourceStore: {provider: S3, container: a, prefix: p}\ntargetStore: {provider: S3, container: b, prefix: q}\nmaxBackups: 3",
	"sourceStore: {provider: Local, container: a, prefix: p}\ntargetStore: {provider: GCS, container: b, prefix: q, secretRef: {name: s, namespace: elsewhere}}",
	"timeout: 2562047h47m16.854775807s", "timeout: -1ns", "timeout: null", "timeout: 1e3s", "timeout: 1", "a: &x [*x]", "{\"timeout\": \"1m\", \"timeout\": \"2m\"}",
}

// Whatever the config of a task is, every task type decodes it or returns an error, and what it has decoded it reads again, unchanged, from
// what the task engine records of it.
func FuzzTaskConfig(f *testing.F) {
	o, err := New(&configv1alpha1.OperatorConfiguration{}, Dependencies{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	if err != nil {
		f.Fatal(err)
	}
	registry := o.Tasks.Registry
	types := slices.Sorted(maps.Keys(registry))
	for _, config := range configs {
		for i := range types {
			f.Add(uint8(i), config)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, config string) {
		taskType := types[int(i)%len(types)]
		handler := registry[taskType].Handler
		decoded, err := handler.Decode(config)
		if err != nil {
			checkText(t, taskType, config, err)
			return
		}
		recorded, err := json.Marshal(decoded)
		if err != nil {
			t.Fatalf("%s: config %q cannot be recorded: %v", taskType, config, err)
		}
		restored, err := handler.Recorded(string(recorded))
		if err != nil {
			t.Fatalf("%s: config %q was recorded as %s, which cannot be restored: %v", taskType, config, recorded, err)
		}
		again, err := json.Marshal(restored)
		if err != nil || string(again) != string(recorded) || !reflect.DeepEqual(reflect.TypeOf(decoded), reflect.TypeOf(restored)) {
			t.Fatalf("%s: config %q was recorded as %s, which was restored as %s (%v)", taskType, config, recorded, again, err)
		}
	})
}

// checkText checks that an error says something.
func checkText(t *testing.T, taskType v1alpha1.TaskType, config string, err error) {
	t.Helper()
	if err.Error() == "" {
		t.Errorf("%s: config %q is refused without a reason", taskType, config)
	}
}
