// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// free is what a member says that waits, without being listed, and could join.
var free = words.Refusal{Reason: v1alpha1.ReasonNotListed, Volume: words.Volume{Store: words.StoreFree}}

// A member that applies its own removal says so in its data, which is set aside and never used to rejoin. It is kept until a member
// votes there again.
func TestRemovedMemberRejoinsWithoutItsData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	cluster := c.startThree(g)
	removed := c.listedID(g, 2)
	g.Expect(c.listed(g, 2, cluster, removed)).To(BeTrue())
	c.removeThirdAsLeader(g)
	g.Expect(c.listed(g, 2, cluster, removed)).To(BeFalse(), "so its agent says that it was removed")
	c.put(g, "after the removal")
	found := c.survey(g, 2)
	g.Expect(found).To(And(HaveField("Removed", BeTrue()), HaveField("MemberID", removed)))

	g.Expect(c.refusal(g, 2)).To(Equal(free))
	g.Expect(c.aside(g, 2, member.RemovedSuffix)).To(HaveLen(1))
	found = c.survey(g, 2)
	g.Expect(found.SetAside).To(HaveLen(1), "a recovery knows of it")
	c.add(g, 2)
	c.start(g, 2, "existing")
	c.promote(g, 2)
	c.awaitVoters(g, 3)
	g.Expect(c.listedID(g, 2)).NotTo(Equal(removed))
	g.Eventually(func() string { return c.get(g, 2) }).WithTimeout(machine.Patience()).Should(Equal("after the removal"))
	g.Expect(serve.RemoveReplaced(logr.Discard(), serve.SharedIn(c.memberDir(2), ""))).To(BeTrue())
	g.Expect(c.aside(g, 2, member.RemovedSuffix)).To(BeEmpty())
}

// removeThirdAsLeader removes the third member while it leads. A leader applies its own removal; a follower may not: the others close its
// connections as soon as they have applied it, and if the news that it is committed was still on its way, the member ends without a
// tombstone, because its peers refuse it.
func (c *cluster) removeThirdAsLeader(g Gomega) {
	c.t.Helper()
	third := c.memberID(g, 2)
	g.Eventually(func(g Gomega) {
		leader := c.leaderOf(0)
		for i := range c.members {
			if leader != third && c.memberID(g, i) == leader {
				c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
					_, err := etcd.MoveLeader(ctx, third)
					return err
				})
			}
		}
		g.Expect(c.leaderOf(2)).To(Equal(third))
	}).WithTimeout(machine.Patience()).Should(Succeed())
	c.remove(g, strconv.FormatUint(third, 16))
	g.Expect(c.awaitEnd(g, 2)).To(BeZero(), "the exit code of a removed member")
}

// awaitEnd waits until the process of a member ends by itself, and returns its exit code.
func (c *cluster) awaitEnd(g Gomega, i int) int {
	process, ended := c.processes[i], make(chan error, 1)
	go func() { ended <- process.Wait() }()
	g.Eventually(ended).WithTimeout(machine.Patience()).Should(Receive())
	delete(c.processes, i)
	return process.ProcessState.ExitCode()
}

// listed asks as the agent of a member does whose etcd does not answer.
func (c *cluster) listed(g Gomega, i int, clusterID, memberID string) bool {
	m, local, err := serve.NewMember(fmt.Sprintf("m%d", i), serve.SharedIn(c.memberDir(i), ""))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = local.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), machine.Patience())
	defer cancel()
	cluster, err := strconv.ParseUint(clusterID, 16, 64)
	g.Expect(err).NotTo(HaveOccurred())
	id, err := strconv.ParseUint(memberID, 16, 64)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = m.Listed(ctx, cluster+1, id)
	g.Expect(err).To(MatchError(ContainSubstring("cluster "+clusterID+" answers")), "the list of another cluster says nothing")
	listed, err := m.Listed(ctx, cluster, id)
	g.Expect(err).NotTo(HaveOccurred())
	return listed
}

func (c *cluster) aside(g Gomega, i int, suffix string) []string {
	found, err := filepath.Glob(c.dataDir(i) + suffix + "*")
	g.Expect(err).NotTo(HaveOccurred())
	return found
}

// A member that was down knows nothing of its removal: a quorum that does not list it does. It does not start with its data, which
// another of its name has replaced.
func TestMemberThatWasRemovedWhileItWasDown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		told   bool
		added  bool
		suffix string
	}{
		"told":            {true, false, member.RemovedSuffix},
		"not told":        {false, false, member.AsideSuffix},
		"and added again": {true, true, member.RemovedSuffix},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c := newCluster(t, 3)
			id := c.startThree(g)
			c.stop(2)
			if tc.told {
				c.write(g, 2, member.KeyMembers, map[string]any{"etcd": c.etcdUID, "clusterID": id, "generation": 1, "leaving": []string{"m2"}})
			}
			c.remove(g, c.listedID(g, 2))
			if tc.added {
				c.add(g, 2)
			} else {
				g.Expect(c.refusal(g, 2)).To(Equal(free))
				c.add(g, 2)
			}
			c.start(g, 2, "existing")
			g.Expect(c.aside(g, 2, tc.suffix)).To(HaveLen(1))
			c.promote(g, 2)
			c.awaitVoters(g, 3)
		})
	}
}

// A member that is told that it leaves and is still listed is a voter, and starts as one, also if the others do not answer.
func TestMemberThatIsToldToLeaveStartsWhileItIsListed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	c.write(g, 2, member.KeyMembers, map[string]any{"etcd": c.etcdUID, "clusterID": id, "generation": 1, "leaving": []string{"m2"}})
	c.stop(2)
	c.start(g, 2, "existing")
	c.awaitVoters(g, 3)
	c.stop(1)
	c.stop(2)
	g.Expect(c.prepare(2, 0)).To(Succeed(), "no quorum answers")
	g.Expect(c.dataDir(2)).To(BeADirectory())
}

// The data of a removed member may be the newest that there is: without a quorum of the others it is not touched, and not used.
func TestRemovedMemberWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	id := c.startThree(g)
	c.removeThirdAsLeader(g)
	c.stop(1)
	g.Expect(c.refusal(g, 2)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonMemberRemoved, Volume: words.Volume{Store: words.StoreLeft, ClusterID: id}}))
	g.Expect(c.dataDir(2)).To(BeADirectory())
}
