// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// requested returns what an operator has asked the API server for since a user has done something, by controller, verb and kind, in order.
// Events and the Lease of the leader are not in the model.
func requested(t *testing.T, r Result, since string) (all []string) {
	t.Helper()
	var trace bytes.Buffer
	if err := r.Trace.Write(&trace, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	begun := false
	for line := range strings.Lines(trace.String()) {
		fields := strings.Fields(line)
		begun = begun || fields[1] == "user" && strings.Contains(line, since)
		_, controller, found := strings.Cut(fields[1], "/")
		if !begun || !found || len(fields) < 4 || !slices.Contains([]string{"get", "list", "create", "update", "patch", "apply", "delete", "evict"}, fields[2]) {
			continue
		}
		words := 2
		if fields[3] == "status" {
			words = 3
		}
		all = append(all, controller+" "+strings.Join(fields[2:2+words], " "))
	}
	return all
}

// What a rollout of three members that replaces their pods asks the API server for: 6 requests for each member, 16, and up to 8 writes of the
// status of the Etcd. Of the first 17, which come before a pod is deleted, 3 confirm the owners of what changes and of what new pods start with
// (ADR 117), 4 that a task is due, 2 that it may start, and 4 what the deletion rests on. docs/rollout.md says why each is there.
func TestRequestsOfARollout(t *testing.T) {
	const change = "changes the pod template"
	r := Run(t, Script{Seed: 1, Members: 3, Operations: []Operation{{change, 1, time.Minute}}})
	for _, broken := range r.Broken {
		t.Error(broken)
	}
	all, n := requested(t, r, change), map[string]int{}
	for _, one := range all {
		n[one]++
	}
	for one, most := range map[string]int{
		"etcd get StatefulSet": 1, "etcd get ServiceAccount": 1, "etcd get ConfigMap": 1, "etcd apply StatefulSet": 1, "etcd patch status Etcd": 8,
		"rollout get StatefulSet": 1, "rollout get Etcd": 1, "rollout list Pod": 1, "rollout list EtcdOperatorTask": 1, "rollout create EtcdOperatorTask": 1,
		"task get Etcd": 1, "task list EtcdOperatorTask": 1, "task get StatefulSet": 7, "task list Pod": 4, "task list PersistentVolumeClaim": 4,
		"task update status EtcdOperatorTask": 5, "task delete Pod": 3,
	} {
		if n[one] > most {
			t.Errorf("%s: %d times, at most %d", one, n[one], most)
		}
		delete(n, one)
	}
	for one, times := range n {
		t.Errorf("%s: %d times, never", one, times)
	}
	first := slices.Index(all, "task delete Pod")
	if first < 0 || first > 17 {
		t.Errorf("%d requests come before the first deletion, at most 17: %s", first, strings.Join(all, ", "))
	}
	// A pod goes once the StatefulSet was read after the intent.
	for i, one := range all {
		if one == "task delete Pod" && !slices.Equal(all[i-2:i], []string{"task update status EtcdOperatorTask", "task get StatefulSet"}) {
			t.Errorf("a pod is deleted after %s", strings.Join(all[max(0, i-6):i], ", "))
		}
	}
	t.Logf("%d requests: %s", len(all), strings.Join(all, ", "))
}
