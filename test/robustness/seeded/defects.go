// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

// defects are further bugs that the simulation has to see: those about members that come and go, and some that the operator once had, put
// back. They take several faults and a while, for which the local Kubernetes is too slow.
var defects = []bug{
	{
		Name: "members: a learner is promoted too early",
		Edits: []edit{{"internal/membership/guards.go",
			"{name: GuardLearnerCaughtUp, judges: []Action{PromoteLearner},", "{name: GuardLearnerCaughtUp, judges: []Action{},"}},
	},
	{Name: "members: the leader is removed", Edits: leaderRemoved},
	{
		Name: "members: one is removed while another one is down",
		Edits: []edit{
			{"internal/membership/guards.go", "overridable: true, judges: []Action{AddLearner, MoveLeader, RemoveMember}, check: othersServing", "judges: []Action{AddLearner}, check: othersServing"},
			{"internal/membership/guards.go", "judges: []Action{AddLearner, PromoteLearner, RemoveMember}, check: quorumKept", "judges: []Action{AddLearner, PromoteLearner}, check: quorumKept"},
			{"internal/membership/guards.go", "judges: []Action{AddLearner, PromoteLearner, RemoveMember}, check: membersSettled", "judges: []Action{AddLearner, PromoteLearner}, check: membersSettled"}},
	},
	{
		Name:  "members: a removed member starts with its data",
		Edits: []edit{{"internal/agent/member/decide.go", "	case f.wasRemoved():", "	case f.wasRemoved() && f.Member == \"\":"}},
	},
	{
		Name: "members: a rollout restarts one of two voters",
		Edits: []edit{
			{"internal/rollout/guards.go", "{name: v1alpha1.GuardVotersOdd, overridable: true, judges: disruptions,", "{name: v1alpha1.GuardVotersOdd, overridable: true, judges: 0,"},
			{"internal/rollout/quorum.go", "	if quorum.Exists(rest, voters) {", "	if quorum.Exists(rest, voters) || voters == 2 {"}},
	},
	{
		Name: "members: a cluster begins at the revision of the data that it is made of",
		Edits: []edit{
			{"internal/agent/datadir/begin.go", "		return revision + bump\n", "		return revision\n"},
			{"internal/agent/datadir/begin.go", "	return max(revision+bump, began+Margin)\n", "	return max(revision, 0*(bump+began))\n"}},
	},
	{
		Name:  "once: no volume is surveyed before the first start of an Etcd that is created again",
		Issue: "An Etcd that was created again beside retained claims served an empty cluster beside data, if most volumes were lost.",
		Edits: []edit{{"internal/etcd/firststart/decision.go", "	case len(f.claims) == 0 && f.recorded == \"\":\n", "	case f.recorded == \"\":\n"}},
	},
	{
		Name:  "once: a single member is never restored once its cluster is not that of its token",
		Issue: "The only member of a cluster that was created again, recovered or made smaller refused the backup that it had just restored, for ever.",
		Edits: []edit{{"internal/agent/member/lineage.go", "	if s.Recovery != nil || s.ClusterID == \"\" {\n		return s.Token()", "	if s.Recovery != nil || s.ClusterID != \"*\" {\n		return s.Token()"}},
	},
	{
		Name:  "once: an Etcd that is created again begins a cluster beside its old volumes",
		Edits: []edit{{"internal/agent/member/decide.go", "	case !f.MayBegin:", "	case !f.MayBegin && f.Member == \"\":"}},
	},
	{
		Name:  "once: the recorded cluster ID is stale after a second recovery",
		Issue: "A second recovery left the cluster ID of the status stale: every restart then refused good data.",
		Edits: []edit{{"internal/etcd/status/status.go",
			"		next.ClusterID = id\n",
			"		if r := next.Recovery; next.ClusterID == \"\" || r != nil && len(r.EarlierClusterIDs) == 0 {\n			next.ClusterID = id\n		}\n"}},
	},
	{
		Name:  "once: the survey passes over the newest cluster",
		Issue: "The survey passed over the newest data when the member was gone that an unfinished recovery had chosen.",
		Edits: []edit{
			{"tasks/recovery/choose.go", "range slices.Backward(e.Lineage)", "range slices.All(e.Lineage)"},
			{"tasks/recovery/choose.go", "	case len(f.doubts) > 0:", "	case len(f.doubts) > 100:"},
			{"tasks/recovery/choose.go", "	case !f.newest && len(f.aside) > 0:", "	case !f.newest && len(f.aside) > 100:"}},
	},
	{
		Name:  "once: a voter that no operator saw is not surveyed",
		Issue: "A voter that was promoted while no operator watched was not surveyed.",
		Edits: []edit{
			{"tasks/recovery/handler.go", "Beyond: true,", "Beyond: false,"},
			{"internal/job/survey/jobs.go", "		known = max(known, int32(len(v.Survey.Voters)), int32(len(v.Survey.CommittedVoters)))\n", ""}},
	},
	{
		Name:  "once: the last word of a lost node proves that etcd is stopped",
		Issue: "What a kubelet had said before its node was lost counted as proof that etcd is stopped.",
		Edits: []edit{{"internal/cluster/readings.go", "func (o *Ordinal) IsDown() bool { return o.isDown() && o.Pod.Stale() == \"\" }", "func (o *Ordinal) IsDown() bool { return o.isDown() }"}},
	},
	{
		Name:  "once: it does in a recovery",
		Issue: "So it did in a recovery.",
		Edits: []edit{{"tasks/recovery/lost.go", "		case o.MayRun():", "		case o.Class != v1alpha1.ClassDead && o.Class != v1alpha1.ClassStarting && o.MayRun():"}},
	},
	{
		Name:  "once: the last word of a silent node proves that etcd is stopped",
		Issue: "What a kubelet had said was believed until Kubernetes had marked its node as lost, after 40 s.",
		Edits: []edit{{"internal/cluster/observe/hear.go", "> believed {", "> time.Hour {"}},
	},
	{
		Name:  "once: a leader is unknown when two cluster IDs tie",
		Issue: "A leader that was known was reported unknown when two cluster IDs tied.",
		Edits: []edit{
			{"internal/cluster/observe/lineage.go", "		case f.id == l.recorded && f.left == 0:", "		case f.id == l.recorded && f.left < 0:"},
			{"internal/cluster/observe/lineage.go", "cmp.Or(cmp.Compare(best.left, f.left), cmp.Compare(f.members, best.members), cmp.Compare(f.leads, best.leads)) > 0", "cmp.Compare(f.members, best.members) > 0"}},
	},
	{
		Name: "once: a member that lost its data waits for a recreation that waits for it",
		Edits: []edit{{"internal/engine/queue/queue.go",
			"	started := t.Status.Rollout != nil &&", "	started := t.UID == \"\" && t.Status.Rollout != nil &&"}},
	},
	{
		Name: "once: a change of the size waits for a recreation that waits for it",
		Edits: []edit{{"internal/engine/queue/queue.go",
			"|| t.StopsNothingYet() ||", "|| t.UID == \"\" && t.StopsNothingYet() ||"}},
	},
	{
		Name: "once: after a recovery, a change of members waits for members that wait for it",
		Edits: []edit{{"internal/etcd/members/input.go",
			"	if k.Etcd.Status.Recovery == nil || k.Announced ||", "	if k.Etcd.Status.Recovery == nil ||"}},
	},
	{
		Name:  "once: after a recovery, a change of members waits for one that was removed",
		Edits: []edit{{"internal/etcd/members/input.go", "			removed++ //", "			removed += 0 //"}},
	},
	{
		Name: "once: a new cluster begins again once its first member has lost its volume",
		Edits: []edit{{"internal/agent/member/decide_recovery.go",
			"	case f.mayHaveBegun():", "	case f.Member == \"\" && f.mayHaveBegun():"}},
	},
	{
		Name: "once: a recovered cluster that shrinks takes itself for another one",
		Edits: []edit{
			{"internal/etcd/component/configmap.go", "bootstrap(etcd, Reaching(etcd, cmp.Or(members, known(etcd))), ", "bootstrap(etcd, cmp.Or(members, known(etcd)), "},
			{"internal/etcd/memberconfig/list.go", "component.Bootstrap(etcd, *set.Spec.Replicas, ", "component.Bootstrap(etcd, component.Reaching(etcd, *set.Spec.Replicas), "}},
	},
	{
		Name:  "once: a rollout and members that become one wait for each other",
		Edits: []edit{{"internal/rollout/relieve.go", "return s.Surges && len(s.Snapshot.Cluster.Voters) <= 2", "return s.Surges"}},
	},
	{
		Name: "once: a rollout waits for the pod of a member that has left",
		Edits: []edit{{"internal/etcd/members/goal.go",
			"waits || !votes(i) &&", "waits || votes(-2) && !votes(i) &&"}},
	},
	{
		Name: "once: a cluster of one member and a recreation wait for each other",
		Edits: []edit{{"internal/engine/memberships/plan.go",
			"		return t.Status.State == v1alpha1.TaskStateInProgress && t.StopsNothingYet() &&",
			"		return t.Status.State == v1alpha1.TaskStatePending && t.Status.State == v1alpha1.TaskStateInProgress &&"}},
	},
	{
		Name: "once: a rollout waits for maintenance that waits for it",
		Edits: []edit{{"internal/engine/queue/queue.go",
			"	case head.Spec.Type == v1alpha1.OnDemandMaintenance && runs(head) && t.Spec",
			"	case head.Spec.Type == v1alpha1.OnDemandMaintenance && head.UID == \"\" && t.Spec"}},
	},
	{
		Name:  "once: a pod that is ending is deleted again and again",
		Edits: []edit{{"internal/membership/order.go", "o.Terminating) && o.Pod && !o.Ending:", "o.Terminating) && o.Pod:"}},
	},
	{
		Name:  "once: every Job takes too long to start by a clock that is ahead",
		Issue: "An operator's clock three minutes ahead failed every task with a Job at birth.",
		Edits: []edit{{"internal/job/live.go", "state.StartingSince.IsZero() || age >= 0 && age < startDeadline {", "!now.IsZero() || age > 0 {"}},
	},
	{
		Name: "fleet: one slot too many", Fleet: true,
		Edits: []edit{{"internal/fleet/slots.go", "	if len(holders)+others < limit {", "	if len(holders)+others < limit+1 {"}},
	},
	{
		Name: "fleet: a task starts before its slot is recorded", Fleet: true,
		Edits: []edit{{"internal/fleet/control/take.go", "	l.Grant(holder)\n", "	if holder.Unasked || holder.Canary {\n		l.Grant(holder)\n	}\n"}},
	},
	{
		Name: "fleet: a bad template reaches another cluster once the first was set right", Fleet: true,
		Edits: []edit{
			{"internal/fleet/rules.go", "func (c *Change) Paused(p *Policy) bool { return len(c.Failures) > p.MaxFailures }", "func (c *Change) Paused(p *Policy) bool { return len(c.Failures) > p.MaxFailures+100 }"},
			{"internal/fleet/rules.go", "	if passed+len(underway) < p.Canary.Count {", "	if passed+len(underway) < p.Canary.Count+100 {"},
		},
	},
	{
		Name: "fleet: another cluster tries a template while the first one does", Fleet: true,
		Edits: []edit{
			{"internal/fleet/rules.go", "	if passed+len(underway) < p.Canary.Count {", "	if passed+len(underway) < p.Canary.Count+100 {"},
		},
	},
	{
		Name: "fleet: what has failed is forgotten with a policy that is deleted", Fleet: true,
		Edits: []edit{{"internal/fleet/transitions.go", "c.Policy == r.Name && len(c.Failures) == 0 && !l.has(c.Name)", "c.Policy == r.Name && !l.has(c.Name)"}},
	},
	{
		Name: "fleet: a canary that someone sets right before its rollout has failed is no failure", Fleet: true,
		Edits: []edit{{"internal/fleet/transitions.go", "h != nil && h.Canary && left != \"\" {", "h != nil && h.Canary && left == \"\" {"}},
	},
	{
		Name:  "members: a claim goes while its member is listed",
		Edits: []edit{{"internal/membership/order.go", "	case s.listed(i) != nil:\n	case !wanted && i == s.Replicas-1:", "	case s.listed(i) != nil && o.Outdated != Volume:\n	case !wanted && i == s.Replicas-1:"}},
	},
	{
		Name:  "members: the only member is replaced before the second one votes",
		Edits: []edit{{"internal/rollout/relieve.go", "	if !s.surges() || !needsRelief(step) || !votes || !s.ordinal(i).Serves() || s.bringsAgent(i) {", "	if !s.now.IsZero() || !s.surges() || !needsRelief(step) || !votes || !s.ordinal(i).Serves() || s.bringsAgent(i) {"}},
	},
	{
		Name:  "once: the operator takes what has the name of an object of the Etcd",
		Edits: []edit{{"internal/base/ownership/ownership.go", "	case controller == nil:\n		f.orphaned(etcd, object)\n", "	case controller == nil:\n		return nil\n"}},
	},
	{
		Name:  "once: a clock that is ahead deletes tasks before their time",
		Issue: "A clock that jumped past the TTL deleted a recovery's task, and with it the kept data.",
		Edits: []edit{{"internal/engine/ttl.go", "	if future || elapsed >= ttl && seen < ttl {", "	if future && seen >= ttl {"}},
	},
}
