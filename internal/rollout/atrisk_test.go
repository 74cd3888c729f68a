// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// The kubelet has yet to restart the etcd of m-1, which serves. A member that serves is not removed by then, although its probe
// fails: two of three would be down. One that is dead is.
func TestNobodyElseGoesBeforeARestartThatIsComing(t *testing.T) {
	for name, c := range map[string]struct {
		other member
		want  Conclusion
	}{
		"the other serves":  {runningOld, Wait},
		"the other is dead": {deadOld, Act},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := &world{members: []member{readyOld, readyOld, c.other}, leader: 0, intent: -1, kind: restarted, phase: [7]phase{1: written}}
			d := Decide(w.input(epoch, DefaultConfig()), epoch)
			g.Expect(d.Conclusion).To(Equal(c.want))
			if c.want == Act {
				g.Expect(d.Step.Ordinals).To(Equal([]int{2}))
				return
			}
			g.Expect(d.Hold.Guard).To(Equal(v1alpha1.GuardUpdateObserved))
			g.Expect(d.Hold.Pod).To(Equal("m-1"))
		})
	}
}
