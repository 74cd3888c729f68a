// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// What is new of a volume is said at once, since the kubelet passes on only the words of a container that ended. A member that could
// join any moment then waits for long; another one ends so that it is heard again.
func TestWhatIsNewIsSaidAtOnce(t *testing.T) {
	const patience = time.Minute
	refusal := func(reason string, v cluster.Volume) *cluster.Refusal {
		return &cluster.Refusal{Reason: reason, Message: "why", Volume: v}
	}
	free, lost := cluster.Volume{Store: cluster.StoreFree}, cluster.Volume{Store: cluster.StoreFree, Lost: "a1"}
	file := filepath.Join(t.TempDir(), "said")
	for _, step := range []struct {
		name    string
		refusal *cluster.Refusal
		waited  time.Duration
		ends    bool
	}{
		{"nothing is said of the volume", refusal(v1alpha1.ReasonDataLost, cluster.Volume{}), patience - 1, false},
		{"nothing is said of it, for a minute", refusal(v1alpha1.ReasonDataLost, cluster.Volume{}), patience, true},
		{"it is free", refusal(v1alpha1.ReasonNotListed, free), 0, true},
		{"it is still free, in the next run", refusal(v1alpha1.ReasonNotListed, free), patience, false},
		{"no member answers, and the run ends with that", refusal(v1alpha1.ReasonDataLost, cluster.Volume{}), patience, true},
		{"it is free: that was heard no more", refusal(v1alpha1.ReasonNotListed, free), 0, true},
		{"no member answers for a moment", refusal(v1alpha1.ReasonDataLost, cluster.Volume{}), patience - 1, false},
		{"it is still free", refusal(v1alpha1.ReasonNotListed, free), patience, false},
		{"it is free for long", refusal(v1alpha1.ReasonNotListed, free), longPatience * patience, true},
		{"another member has lost its data", refusal(v1alpha1.ReasonDataLost, lost), 0, true},
		{"for another reason", refusal(v1alpha1.ReasonDataDamaged, lost), 0, true},
		{"there is data", refusal(v1alpha1.ReasonMemberRemoved, cluster.Volume{Store: cluster.StoreLeft}), 0, true},
		{"there is still data", refusal(v1alpha1.ReasonMemberRemoved, cluster.Volume{Store: cluster.StoreLeft}), patience, true},
	} {
		now := clocktesting.NewFakeClock(time.Unix(0, 0).Add(step.waited))
		p := &preparation{Options: Options{Patience: patience, Clock: now}, said: said(file), says: step.refusal.Volume, since: time.Unix(0, 0)}
		ends, err := p.ends(step.refusal)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(ends).To(Equal(step.ends), step.name)
	}
	p := &preparation{Options: Options{Clock: clock.RealClock{}}, said: said(filepath.Join(file, "not a folder"))}
	_, err := p.ends(refusal(v1alpha1.ReasonNotListed, free))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("what was said of the volume")))
	p.said = said(filepath.Join(t.TempDir(), "missing", "said"))
	_, err = p.ends(refusal(v1alpha1.ReasonNotListed, free))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("noting what is said")))

	// A run that ends with an error is no word of the volume either.
	config := filepath.Join(t.TempDir(), "etcd.conf.yaml")
	NewWithT(t).Expect(os.WriteFile(config+".said", []byte("NotListed: {Free}\n"), 0o600)).To(Succeed())
	NewWithT(t).Expect(Run(t.Context(), logr.Discard(), Options{SharedDir: "missing", ConfigFile: config, Clock: clock.RealClock{}})).NotTo(Succeed())
	NewWithT(t).Expect(config + ".said").NotTo(BeAnExistingFile())
}

// What was said before a member started is said again if its pod is prepared once more: the kubelet has passed on since then that it may start.
func TestAMemberThatStartsHasSaidNothing(t *testing.T) {
	p := newPod(t)
	p.share(member.KeyFirstStart, begins)
	file := p.options.ConfigFile + ".said"
	p.Expect(os.WriteFile(file, []byte("NotListed: {Free}\n"), 0o600)).To(Succeed())
	p.Expect(Run(t.Context(), logr.Discard(), p.options)).To(Succeed())
	p.Expect(file).NotTo(BeAnExistingFile())
}

// A run that has long said that its volume is free does not end because others do not answer once: the operator would take the volume for
// used until the container has run twice more, after ever longer back-offs.
func TestOthersThatDoNotAnswerForAMoment(t *testing.T) {
	const patience = time.Minute
	free := &cluster.Refusal{Reason: v1alpha1.ReasonNotListed, Volume: cluster.Volume{Store: cluster.StoreFree}}
	silent := &cluster.Refusal{Reason: v1alpha1.ReasonDataLost}
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := &preparation{Options: Options{Patience: patience, Clock: now}, said: said(filepath.Join(t.TempDir(), "said")), since: now.Now()}
	for i, step := range []struct {
		after time.Duration
		says  *cluster.Refusal
		ends  bool
	}{
		{0, silent, false}, {retry, free, true}, {2 * patience, free, false}, {retry, silent, false}, {patience - retry, silent, false},
		{retry, free, false}, {patience, free, false}, {retry, silent, false}, {patience, silent, true},
	} {
		now.Step(step.after)
		ends, err := p.ends(step.says)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(ends).To(Equal(step.ends), "step %d", i)
	}
}

// A member is found by its ID, whatever its peer URLs are now.
func TestListed(t *testing.T) {
	g := NewWithT(t)
	k := knowledge{memberID: 0xab, members: []*etcdserverpb.Member{{ID: 0xab}, {ID: 0xcd}}}
	g.Expect(k.listed()).To(Equal("ab"))
	g.Expect(k.lists("cd")).To(BeTrue())
	g.Expect(k.lists("ef")).To(BeFalse())
	g.Expect(k.lists("")).To(BeFalse())
	g.Expect(knowledge{}.listed()).To(BeEmpty())
}

// What the operator changes while a member waits counts at once: here the members that it asks.
func TestTheConfigurationIsReadAgain(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	share := func(key, value string) {
		g.Expect(os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600)).To(Succeed())
	}
	share(member.KeyConfig, "listen-client-urls: http://0.0.0.0:2379\n")
	share(member.KeyBootstrap, "initial-cluster: m-0=http://m-0:2380\ninitial-cluster-token: uid\n")
	p := &preparation{Options: Options{Name: "m-0", SharedDir: dir}}
	g.Expect(p.read()).To(Succeed())
	g.Expect(p.others).To(BeNil(), "it is alone")
	share(member.KeyClusterID, "cafe")
	share(member.KeyMembers, "etcd: uid\nclusterID: cafe\ngeneration: 1\nleaving: [m-0]\n")
	share(member.KeySource, "clientEndpoints: ['http://source-0:2379']\nleads: true\n")
	g.Expect(p.read()).To(Succeed())
	t.Cleanup(p.others.close)
	g.Expect(p.others.etcd.Endpoints()).To(Equal([]string{"http://source-0:2379"}))
	g.Expect(p.shared.Members.Leaves("m-0")).To(BeTrue())
	former := p.others.etcd
	share(member.KeySource, "clientEndpoints: ['http://source-1:2379']\nleads: true\n")
	g.Expect(p.read()).To(Succeed())
	g.Expect(former.Ctx().Err()).To(HaveOccurred(), "its connections are closed")
	before := p.others
	g.Expect(p.read()).To(Succeed())
	g.Expect(p.others).To(BeIdenticalTo(before), "nothing has changed")
	share(member.KeyMembers, "illegible: [")
	g.Expect(p.read()).To(MatchError(ContainSubstring("reading members.yaml")))
	g.Expect(p.others).To(BeIdenticalTo(before))
}

// A member that the configuration lists alone restores no backup while there are others: one of them may have what the backup lacks.
func TestNoRestoreBesideAnother(t *testing.T) {
	g := NewWithT(t)
	shared := sharedIn(t.TempDir())
	shared.ClusterID = "cafe"
	p := &preparation{shared: shared, Options: Options{Backups: dying{seen: func() { t.Error("restored") }}}}
	in, _, err := p.look(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(member.Decide(in).Action).To(Equal(member.Restore), "it is alone")
	id := member.Identity{PeerClientURLs: []string{"http://127.0.0.1:1"}}
	p.others, err = dialOthers(shared, id, "")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(p.others.close)
	waits, err := p.once(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(waits.Reason).To(Equal(v1alpha1.ReasonDataLost))
}
