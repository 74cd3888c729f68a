// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

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
	for name, c := range map[string]struct {
		task *v1alpha1.EtcdOperatorTask
		left time.Duration
		ends bool
	}{
		"not ended":   {newTask(), 0, false},
		"the default": {ended, time.Hour - 10*time.Second, true},
		"at once":     {short, -10 * time.Second, true},
	} {
		if left, ends := timeToLive(c.task, epoch.Add(10*time.Second)); left != c.left || ends != c.ends {
			t.Errorf("%s: %s, %v", name, left, ends)
		}
	}
}
