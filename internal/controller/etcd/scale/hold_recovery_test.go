// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func recovery(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "recover", UID: "recovery"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Recovery: &v1alpha1.RecoveryStatus{
			Phase: phase, Source: source, Member: "etcd-main-2", PreviousClusterID: "cafe",
		}},
	}
}

func TestRecoveryHoldsAtZero(t *testing.T) {
	const data = v1alpha1.RecoverFromData
	recorded := &v1alpha1.ClusterRecovery{TaskUID: "recovery"}
	waiting := recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateWaitingTermination)
	deleted := recovery(v1alpha1.RecoverySurveying, "")
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		tasks    []v1alpha1.EtcdOperatorTask
		recorded *v1alpha1.ClusterRecovery
		want     string
	}{
		"while it confirms":                     {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryConfirming, "")}, nil, ""},
		"while it stops the members":            {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStopping, "")}, nil, "recover"},
		"while it surveys":                      {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoverySurveying, "")}, nil, "recover"},
		"until the choice is recorded":          {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, nil, "recover"},
		"and that of an earlier one is not his": {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, &v1alpha1.ClusterRecovery{TaskUID: "earlier"}, "recover"},
		"once it is recorded":                   {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, recorded, ""},
		"when nothing is rebuilt":               {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, "")}, nil, ""},
		"while the cluster grows":               {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
		"deleted":                               {[]v1alpha1.EtcdOperatorTask{deleted}, nil, ""},
		"before a recreation that it preempted": {[]v1alpha1.EtcdOperatorTask{waiting, recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
	} {
		got := ""
		if t := holder(c.tasks, c.recorded); t != nil {
			got = t.Name
		}
		if got != c.want {
			t.Errorf("%s: held by %q, want %q", name, got, c.want)
		}
	}
}
