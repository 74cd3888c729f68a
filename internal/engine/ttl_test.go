// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTimeToLive(t *testing.T) {
	ended := inState(newTask(), v1alpha1.TaskStateFailed)
	ended.Status.CompletedAt = &metav1.Time{Time: epoch}
	short := ended.DeepCopy()
	short.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	previewed := short.DeepCopy()
	previewed.Spec.Type = v1alpha1.Restore
	aborted, restored := previewed.DeepCopy(), previewed.DeepCopy()
	aborted.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStopping}
	restored.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStarting, Source: v1alpha1.RecoverFromTarget}
	for name, c := range map[string]struct {
		task *v1alpha1.EtcdOperatorTask
		ttl  time.Duration
		ends bool
	}{
		"not ended":   {newTask(), 0, false},
		"the default": {ended, time.Hour, true},
		"at once":     {short, 0, true},
		"a preview":   {previewed, 0, true},
		"an abort":    {aborted, 0, true},
		"a restore":   {restored, 0, false},
	} {
		if ttl, ends := timeToLive(c.task); ttl != c.ttl || ends != c.ends {
			t.Errorf("%s: %s, %v", name, ttl, ends)
		}
	}
}
