// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

func TestParseRef(t *testing.T) {
	for arg, want := range map[string]Ref{
		"main":                            {"", "main"},
		"etcd/main":                       {v1alpha1.KindEtcd, "main"},
		"Etcds/main":                      {v1alpha1.KindEtcd, "main"},
		"etcd.druid.gardener.cloud/main":  {v1alpha1.KindEtcd, "main"},
		"etcdoperatortask/main-restart-x": {v1alpha1.KindEtcdOperatorTask, "main-restart-x"},
		"etcdoperatortask.druid.gardener.cloud/main-restart-x": {v1alpha1.KindEtcdOperatorTask, "main-restart-x"},
	} {
		if got, err := ParseRef(arg); err != nil || got != want {
			t.Errorf("%q: %v, %v", arg, got, err)
		}
	}
	for arg, say := range map[string]string{
		"": "is not a name", "etcd/": "is not a name", "pod/main": "neither an Etcd nor a task",
		// A type of etcd-druid has this short name.
		"eot/main": "neither an Etcd nor a task", "etcd/a/b": "is not a name",
		"Main": "is not a name", "a\x1b[2J": "is not a name", "-n": "is not a name",
	} {
		if _, err := ParseRef(arg); err == nil || Code(err) != exitUsage || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v", arg, err)
		}
	}
	if _, err := EtcdName("task/x"); err == nil {
		t.Error("a task is not an Etcd")
	}
	if _, err := TaskName("etcd/x"); err == nil || !strings.Contains(err.Error(), "is not a task") {
		t.Errorf("an Etcd is not a task: %v", err)
	}
}
