// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// A recovered cluster has no log that goes back to its beginning, so its leader sends a learner a whole snapshot first. Whenever a
// learner is killed, it therefore has nothing, or all that the cluster began with: its data comes before that of the cluster before.
func TestLearnerOfARecoveredClusterHasAllThatItBeganWith(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	c.putMany(g, 10000, 1000)
	for i := range 3 {
		c.stop(i)
	}
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})
	c.start(g, 0, "existing")
	recovered := c.idOf(g, 0)
	c.recordID(recovered)
	began := c.revision(g)

	g.Expect(c.prepare(1, machine.Patience())).To(Succeed())
	var found member.Survey
	nothing := 0
	for life := 50 * time.Millisecond; found.State != member.SurveyPresent; life += max(5*time.Millisecond, life/20) {
		g.Expect(life).To(BeNumerically("<", machine.Patience()))
		c.run(g, 1)
		process := c.processes[1].Process
		kill := time.AfterFunc(life, func() { _ = process.Kill() })
		_ = c.processes[1].Wait()
		kill.Stop()
		delete(c.processes, 1)
		found = c.survey(g, 1)
		g.Expect(found.State).NotTo(Equal(member.SurveyDamaged), found.Damage)
		if found.State == member.SurveyNone {
			nothing++
		}
	}
	t.Logf("killed %d times with nothing, and then %+v; the cluster began at revision %d", nothing, found, began)
	g.Expect(found.ClusterID).To(Equal(recovered))
	g.Expect(found.Voters).NotTo(ContainElement(found.MemberID), "it learns")
	g.Expect(found.Revision).To(BeNumerically(">=", began))
}
