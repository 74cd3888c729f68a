// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var noon = epoch.Add(12 * time.Hour)

// of returns a world of members in which one leads.
func of(leader int, members ...member) *world {
	return &world{leader: leader, members: members, intent: -1}
}

// unaware is a member that answers and knows no leader, although others do.
func unaware(i int) func(*Input) {
	return func(in *Input) { in.Snapshot.Ordinals[i].Serving = false }
}

// short returns a decision in one line.
func short(d Decision, s *cluster.Snapshot) string {
	switch {
	case d.Hold() != nil:
		return fmt.Sprintf("hold %s %s", d.Hold().Guard, d.Hold().Pod)
	case d.Step == nil:
		return string(d.Conclusion)
	case d.Step.Action == MoveLeader:
		return fmt.Sprintf("MoveLeader %s to %s", s.Ordinals[d.Step.Ordinals[0]].Name, s.Ordinals[d.Step.Successor].Name)
	}
	out := string(d.Step.Action)
	for _, i := range d.Step.Ordinals {
		out += " " + s.Ordinals[i].Name
	}
	return out
}

type change func(*Input)

func config(set func(*Config)) change { return func(in *Input) { set(&in.Config) } }

// pod returns a change of the pod of an ordinal.
func pod(ordinal int, set func(*cluster.Pod)) change {
	return func(in *Input) { set(in.Snapshot.Ordinals[ordinal].Pod) }
}

func override(guards ...v1alpha1.GuardName) change {
	return func(in *Input) {
		for _, g := range guards {
			in.Overridden = append(in.Overridden, v1alpha1.OverridableGuard(g))
		}
	}
}

func twice(a, b change) change { return func(in *Input) { a(in); b(in) } }

func stranded(p *cluster.Pod) { p.VolumeTrouble = "its volume is stranded" }
func notReady(p *cluster.Pod) { p.Node.Trouble = "not ready" }

func TestDecide(t *testing.T) {
	lasting := func(w *world) *world { w.lasted = true; return w }
	hidden := func(w *world) *world { w.hidden, w.lasted = true, true; return w }
	cutOff := func(w *world) *world { w.cutOff, w.lasted = true, true; return w }
	young := func(ordinal int, w *world) *world { w.young[ordinal] = true; return w }
	nodesLost := func(w *world) *world { w.nodesLost = true; return w }
	foreign := func(n int, w *world) *world { w.foreignUp = n; return w }
	foreignDown := func(n int, w *world) *world { w.foreignDown = n; return w }
	changing := func(in *Input) { in.Snapshot.Changing = true }
	surges := func(in *Input) { in.Surges = true }
	oldAgent := func(in *Input) {
		surges(in)
		in.Snapshot.Ordinals[0].Pod.AgentOutdated = true
		for uid := range in.Timers.Running {
			in.Timers.Running[uid] = Running{Since: noon.Add(-agentPatience)}
		}
	}
	nonVoter := func(ordinal int) change {
		return func(in *Input) {
			c := &in.Snapshot.Cluster
			c.Voters = slices.DeleteFunc(c.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
		}
	}
	evict := config(func(c *Config) { c.PodRemoval = Evict })
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"nothing outdated":                              {of(0, readyNew, readyNew, readyNew), nil, "Finished"},
		"a follower, from the highest ordinal":          {of(0, readyOld, readyOld, readyOld), nil, "DeletePod m-2"},
		"a follower, not the leader":                    {of(2, readyOld, readyOld, readyOld), nil, "DeletePod m-1"},
		"the unhealthy one first":                       {of(2, frozenOld, readyOld, readyOld), nil, "DeletePod m-0"},
		"dead before unready":                           {of(2, frozenOld, deadOld, readyOld, readyOld, readyOld), nil, "DeletePod m-1"},
		"starting before unready":                       {of(2, frozenOld, startingOld, readyOld, readyOld, readyOld), nil, "DeletePod m-1"},
		"the unhealthy one is gone and must return":     {of(2, missing, readyOld, readyOld), nil, "hold OthersParticipating m-0"},
		"it is back but does not participate yet":       {of(2, runningNew, readyOld, readyOld), nil, "hold OthersParticipating m-0"},
		"it participates":                               {of(2, readyNew, readyOld, readyOld), nil, "DeletePod m-1"},
		"the last follower waits for no other":          {of(2, readyNew, readyOld, readyNew), nil, "DeletePod m-1"},
		"a new pod that fails holds the rollout":        {of(2, deadNew, readyOld, readyOld), nil, "hold OthersParticipating m-0"},
		"all updated, one not participating":            {of(1, readyNew, readyNew, runningNew), nil, "hold OthersParticipating m-2"},
		"leadership moves before the leader is removed": {of(0, readyOld, readyNew, readyNew), nil, "MoveLeader m-0 to m-1"},
		"leadership moves once all serve":               {of(0, readyOld, readyNew, runningNew), nil, "MoveLeader m-0 to m-1"},
		"and not while one is starting":                 {of(0, readyOld, readyNew, startingNew), nil, "hold OthersServing m-2"},
		"nor while one is a learner":                    {of(0, readyOld, readyNew, readyNew, readyNew, learnerNew), nil, "hold OthersServing m-4"},
		"leadership moves to a participating member":    {of(0, readyOld, runningNew, runningNew), nil, "hold OthersParticipating m-1"},
		"no handover if disabled":                       {of(0, readyOld, readyNew, readyNew), config(func(c *Config) { no := false; c.LeaderHandover = &no }), "DeletePod m-0"},
		"a successor must have caught up": {of(0, readyOld, readyNew, readyNew), func(in *Input) {
			in.Snapshot.Ordinals[0].AppliedIndex, in.Snapshot.Ordinals[2].AppliedIndex = 5000, 4500
		}, "MoveLeader m-0 to m-2"},
		"a successor that is as far behind as it may be": {of(0, readyOld, readyNew, readyNew), func(in *Input) { in.Snapshot.Ordinals[0].AppliedIndex = maxSuccessorLag }, "MoveLeader m-0 to m-1"},
		"one that has caught up is not overridden":       {of(0, readyOld, readyNew, readyNew), override(v1alpha1.GuardSuccessorCaughtUp), "MoveLeader m-0 to m-1"},
		"one that has not is": {of(0, readyOld, readyNew, readyNew), func(in *Input) {
			in.Snapshot.Ordinals[0].AppliedIndex = maxSuccessorLag + 1
			override(v1alpha1.GuardSuccessorCaughtUp)(in)
		}, "DeletePod m-0"},
		"no member has caught up": {of(0, readyOld, readyNew, readyNew), func(in *Input) { in.Snapshot.Ordinals[0].AppliedIndex = 5000 }, "hold SuccessorCaughtUp m-0"},
		"without a handover after three attempts": {of(0, readyOld, readyNew, readyNew), func(in *Input) {
			in.Recorded.LeaderHandover = &v1alpha1.LeaderHandover{From: "m-0", Attempts: 3, LastAttemptTime: metav1.Time{Time: noon.Add(-HandoverWindow)}}
		}, "DeletePod m-0"},
		"once the third attempt can be observed": {of(0, readyOld, readyNew, readyNew), func(in *Input) {
			in.Recorded.LeaderHandover = &v1alpha1.LeaderHandover{From: "m-0", Attempts: 3, LastAttemptTime: metav1.Time{Time: noon}}
		}, "hold HandoverObserved m-0"},
		"the attempts of another leader do not count": {of(0, readyOld, readyNew, readyNew), func(in *Input) {
			in.Recorded.LeaderHandover = &v1alpha1.LeaderHandover{From: "m-1", Attempts: 3, LastAttemptTime: metav1.Time{Time: noon}}
		}, "MoveLeader m-0 to m-1"},
		"a single member":                                 {of(0, readyOld), nil, "DeletePod m-0"},
		"a single member that is frozen":                  {of(-1, frozenOld), nil, "hold QuorumLossConfirmed m-0"},
		"a single member that is frozen for long":         {lasting(of(-1, frozenOld)), nil, "DeletePod m-0"},
		"two members go one at a time":                    {of(0, readyOld, readyOld), nil, "DeletePod m-1"},
		"two members, the second":                         {of(0, readyOld, missing), nil, "hold OthersParticipating m-1"},
		"two members, scaling out to three":               {of(0, readyOld, readyOld), changing, "hold VotersOdd m-1"},
		"one member, scaling out to three":                {of(0, readyOld), changing, "DeletePod m-0"},
		"four members on their way to five":               {of(0, readyOld, readyOld, readyOld, readyOld), changing, "hold VotersOdd m-3"},
		"four on their way, one does not serve":           {of(0, readyOld, readyOld, readyOld, deadOld), changing, "DeletePod m-3"},
		"four members for good":                           {of(0, readyOld, readyOld, readyOld, readyOld), nil, "DeletePod m-3"},
		"one of two voters":                               {foreign(1, of(0, readyOld)), nil, "hold QuorumKept m-0"},
		"beside the last member of a source":              {foreign(1, of(0, readyOld, readyOld, readyOld)), nil, "DeletePod m-2"},
		"beside the last of a source, which leaves":       {foreign(1, of(0, readyOld, readyOld, readyOld)), changing, "hold VotersOdd m-2"},
		"beside two of a source, which leave":             {foreign(2, of(0, readyOld, readyOld, readyOld)), changing, "DeletePod m-2"},
		"down beside the last of a source, which leaves":  {foreign(1, of(0, readyOld, readyOld, deadOld)), changing, "DeletePod m-2"},
		"two of three voters, one is down":                {foreignDown(1, of(0, readyOld, readyOld)), nil, "hold QuorumKept m-1"},
		"the only member is left to a change of members":  {of(0, readyOld), surges, "hold MemberRelieved m-0"},
		"unless it does not serve":                        {lasting(of(-1, frozenOld)), surges, "DeletePod m-0"},
		"several that are to become one are rolled first": {of(0, readyOld, readyOld, readyOld), surges, "DeletePod m-2"},
		"or its agent is too old, and a newer one comes":  {of(0, readyOld), oldAgent, "DeletePod m-0"},
		"which it has yet to show":                        {of(0, readyOld), twice(oldAgent, func(in *Input) { in.Timers = Timers{}.Next(in.Snapshot) }), "hold MemberRelieved m-0"},
		"an agent that reports something is not":          {of(0, readyOld), twice(oldAgent, func(in *Input) { in.Snapshot.Ordinals[0].Read.Etcd = "uid" }), "hold MemberRelieved m-0"},
		"an old agent that stays is of no use":            {of(0, readyOld), twice(oldAgent, pod(0, func(p *cluster.Pod) { p.AgentOutdated = false })), "hold MemberRelieved m-0"},
		"while two vote, neither goes":                    {of(0, readyOld, readyNew), twice(oldAgent, changing), "hold MemberRelieved m-0"},
		"or a person overrides it":                        {of(0, readyOld), twice(surges, override(v1alpha1.GuardMemberRelieved)), "DeletePod m-0"},
		"nor is leadership moved while two vote":          {of(0, readyOld, readyNew), twice(surges, changing), "hold MemberRelieved m-0"},
		"a second one that serves is left to it, too":     {of(0, readyOld, readyOld), twice(surges, override(v1alpha1.GuardVotersOdd)), "hold MemberRelieved m-1"},
		"a second one whose template is broken is not":    {of(0, readyOld, deadOld), twice(surges, nonVoter(1)), "DeletePod m-1"},
		"one that has been removed is not":                {of(0, readyNew, readyOld), twice(surges, nonVoter(1)), "DeletePod m-1"},
		"three pods, two voters":                          {of(0, readyOld, readyOld, learnerNew), override(v1alpha1.GuardOthersParticipating), "hold VotersOdd m-1"},

		"no deletion during a moment without a leader":  {of(-1, readyOld, readyOld, readyOld), nil, "hold QuorumLossConfirmed m-2"},
		"the leader froze a moment ago":                 {of(1, frozenReadyOld, readyOld, readyOld), nil, "hold UnreadyConfirmed m-0"},
		"a member that has not heard of the new leader": {of(1, readyOld, readyOld, runningOld), unaware(2), "hold UnreadyConfirmed m-2"},
		"and has not for long":                          {lasting(of(1, readyOld, readyOld, runningOld)), unaware(2), "DeletePod m-2"},
		"it froze for good, and the kubelet reports it": {of(1, frozenOld, readyOld, readyOld), nil, "DeletePod m-0"},
		"two of three are down: the dead are removed":   {of(-1, deadOld, deadOld, runningOld), nil, "DeletePod m-1"},
		"then the survivor waits":                       {of(-1, startingNew, startingNew, runningOld), nil, "hold QuorumLossConfirmed m-2"},
		"even if the loss persists":                     {lasting(of(-1, startingNew, startingNew, runningOld)), nil, "hold QuorumLossConfirmed m-0"},
		"until they run":                                {lasting(of(-1, frozenNew, frozenNew, runningOld)), nil, "DeletePod m-2"},
		"for the grace period":                          {lasting(young(1, of(-1, frozenNew, frozenNew, runningOld))), nil, "hold QuorumLossConfirmed m-1"},
		"and the survivor too":                          {lasting(young(2, of(-1, frozenNew, frozenNew, runningOld))), nil, "hold QuorumLossConfirmed m-2"},
		"unreachable members are removed one at a time": {lasting(of(-1, frozenOld, frozenOld, missing)), nil, "hold QuorumLossConfirmed m-2"},
		"and not while one terminates":                  {lasting(of(-1, frozenOld, frozenOld, terminating)), nil, "hold QuorumLossConfirmed m-2"},
		"nor while a new one is dead":                   {lasting(of(-1, frozenOld, frozenOld, deadNew)), nil, "hold QuorumLossConfirmed m-2"},
		"unless its agent refuses to start it": {lasting(of(-1, frozenOld, frozenOld, deadNew)), func(in *Input) {
			in.Snapshot.Ordinals[2].Pod.Refusal = &cluster.Refusal{Reason: v1alpha1.ReasonDataLost, Message: "it waits for a quorum"}
		}, "DeletePod m-1"},
		"no override shortens an election": {of(-1, missing, runningOld, runningOld), override(v1alpha1.GuardUnreadyConfirmed), "hold QuorumLossConfirmed m-2"},
		"nor takes two at a time":          {lasting(of(-1, missing, runningOld, runningOld)), override(v1alpha1.GuardUnreadyConfirmed), "hold QuorumLossConfirmed m-0"},
		"nor does a short grace period": {of(-1, runningOld, runningOld, runningOld), func(in *Input) {
			in.Config.UnreadyGracePeriod.Duration = time.Second
			in.Snapshot.At = noon.Add(2 * time.Second)
			in.Timers = in.Timers.Next(in.Snapshot)
		}, "hold QuorumLossConfirmed m-2"},
		"all down":                   {of(-1, deadOld, deadOld, deadOld), nil, "DeletePod m-2"},
		"a broken probe: one by one": {of(0, runningOld, runningOld, runningOld), nil, "DeletePod m-2"},
		"a broken probe: only when the last is back": {of(0, runningOld, runningOld, startingNew), nil, "hold OthersServing m-2"},
		"a broken probe in a larger cluster":         {of(0, runningOld, runningOld, runningOld, runningOld, missing), nil, "hold OthersServing m-4"},
		"a quorum unreachable from the operator":     {hidden(of(1, frozenNew, readyOld, readyOld)), nil, "hold QuorumLossConfirmed m-2"},
		"a quorum on unreachable nodes":              {nodesLost(hidden(of(1, frozenNew, readyOld, readyOld))), nil, "hold QuorumLossConfirmed m-2"},
		"dead members are still removed":             {hidden(of(1, frozenNew, readyOld, readyOld, readyOld, deadOld)), nil, "DeletePod m-4"},
		"a learner is not removed":                   {of(0, readyOld, readyNew, learnerOld), nil, "hold LearnerPromoted m-2"},
		"a learner is removed with an override": {of(0, readyOld, readyNew, learnerOld), func(in *Input) {
			in.Overridden = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardLearnerPromoted)}
		}, "DeletePod m-2"},
		"no override of the quorum": {of(0, readyOld, readyOld, deadNew), func(in *Input) {
			in.Overridden = []v1alpha1.OverridableGuard{"OthersParticipating", "QuorumKept"}
		}, "hold QuorumKept m-1"},
		"no override of an unobserved revision": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Snapshot.StatefulSet.Observed = false
			in.Overridden = []v1alpha1.OverridableGuard{"RevisionObserved"}
		}, "hold RevisionObserved "},

		"AllAtOnce removes pods that do not run": {of(2, deadOld, startingOld, readyOld, readyOld, readyOld), config(func(c *Config) { c.NonParticipatingPods = AllAtOnce }), "DeletePod m-0 m-1"},
		"AllAtOnce keeps pods that could not return": {of(4, deadOld, startingOld, deadOld, readyOld, readyOld, readyOld, readyOld), func(in *Input) {
			in.Config.NonParticipatingPods = AllAtOnce
			pod(2, stranded)(in)
			pod(1, stranded)(in)
		}, "DeletePod m-0"},
		"AllAtOnce keeps running pods": {of(2, deadOld, frozenOld, readyOld, readyOld, readyOld), config(func(c *Config) { c.NonParticipatingPods = AllAtOnce }), "DeletePod m-0"},
		"Evict a healthy pod":          {of(0, readyOld, readyOld, readyOld), evict, "EvictPod m-2"},
		"Delete an unhealthy pod":      {of(0, readyOld, readyOld, deadOld), evict, "DeletePod m-2"},
		"Delete in a cluster of two":   {of(0, readyOld, readyOld), evict, "DeletePod m-1"},
		"Evict: an unready sidecar first, whatever the role": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			evict(in)
			in.Snapshot.Ordinals[0].Pod.AllContainersReady = false
		}, "DeletePod m-0"},
		"a refused eviction blocks": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			evict(in)
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon, ByBudget: true}}
		}, "hold RemovalGranted m-2"},
		"and is retried": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			evict(in)
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon.Add(-removalRetry), ByBudget: true}}
		}, "EvictPod m-2"},
		"so does any other removal": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon}}
		}, "hold RemovalGranted m-2"},
		"but not that of an update in place": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon, Update: true}}
		}, "DeletePod m-2"},
		"an overridden budget leads to a deletion": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			evict(in)
			override(v1alpha1.GuardRemovalGranted)(in)
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon, ByBudget: true}}
		}, "DeletePod m-2"},
		"another overridden refusal leads to another eviction": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			evict(in)
			override(v1alpha1.GuardRemovalGranted)(in)
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon}}
		}, "EvictPod m-2"},
		"but a budget's refusal does not block a deletion": {of(0, readyOld, readyOld, frozenOld), func(in *Input) {
			evict(in)
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon, ByBudget: true}}
		}, "DeletePod m-2"},
		"an unhealthy sidecar first, within the role": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Config.UnhealthyBackupSidecarFirst = true
			in.Snapshot.Ordinals[0].Pod.BackupSidecarReady, in.Snapshot.Ordinals[1].Pod.BackupSidecarReady = false, false
		}, "DeletePod m-1"},

		"a pod on a cordoned node goes first":                         {of(0, readyOld, readyOld, readyOld), pod(1, func(p *cluster.Pod) { p.Node.Cordoned = true }), "DeletePod m-1"},
		"but the leader still goes last":                              {of(0, readyOld, readyOld, readyOld), pod(0, func(p *cluster.Pod) { p.Node.Cordoned = true }), "DeletePod m-2"},
		"an unhealthy pod still goes before it":                       {of(2, frozenOld, readyOld, readyOld), pod(1, func(p *cluster.Pod) { p.Node.Cordoned = true }), "DeletePod m-0"},
		"a pod that could not return goes last":                       {of(0, readyOld, readyOld, readyOld), pod(2, stranded), "DeletePod m-1"},
		"and then not at all":                                         {of(0, readyOld, readyNew, readyOld), pod(2, stranded), "hold VolumeReachable m-2"},
		"nor when it is dead":                                         {of(0, readyOld, readyOld, deadOld), pod(2, stranded), "hold VolumeReachable m-2"},
		"another pod is being evicted":                                {of(0, readyOld, readyOld, readyOld), pod(0, func(p *cluster.Pod) { p.Disrupted = true }), "hold NodesStable m-0"},
		"the node of another pod is not ready":                        {of(0, readyOld, readyOld, readyOld), pod(1, notReady), "hold NodesStable m-1"},
		"the next member is on a node that is not ready":              {of(0, readyOld, readyOld, readyOld), pod(2, notReady), "DeletePod m-2"},
		"a dead member is removed regardless of nodes":                {of(0, readyOld, readyOld, deadOld), pod(1, notReady), "DeletePod m-2"},
		"a frozen member is removed regardless of nodes":              {of(0, readyOld, readyOld, frozenOld), pod(1, notReady), "DeletePod m-2"},
		"dead by a lost node's last word, and the leader may need it": {of(0, readyNew, deadOld, deadNew), pod(1, notReady), "hold QuorumKept m-1"},
		"starting by a lost node's last word":                         {of(0, readyNew, startingOld, frozenNew), pod(1, notReady), "hold QuorumKept m-1"},
		"dead by a report that is late: the leader needs it":          {of(0, readyNew, deadOld, deadNew), nil, "hold QuorumKept m-1"},
		"dead by a report that a probe contradicts":                   {cutOff(of(0, readyNew, deadOld, deadNew)), nil, "hold QuorumKept m-1"},
		"dead, and nothing is probed": {cutOff(of(0, readyNew, deadOld, deadNew)), func(in *Input) {
			for i := range in.Snapshot.Ordinals {
				in.Snapshot.Ordinals[i].Pod.Probed = false
			}
		}, "DeletePod m-1"},
		"cut off": {cutOff(of(0, readyOld, readyOld, readyOld)), nil, "DeletePod m-2"},
		"cut off, and members of another cluster may vote":                   {cutOff(of(0, readyOld, readyOld, readyOld)), func(in *Input) { in.HasSource = true }, "hold QuorumLossConfirmed m-2"},
		"dead, and the leader may have another":                              {of(0, readyNew, deadOld, frozenNew), nil, "DeletePod m-1"},
		"dead by a lost node's last word, and the others suffice":            {of(0, readyNew, readyNew, deadOld), pod(2, notReady), "DeletePod m-2"},
		"what is certainly dead goes before that":                            {of(0, readyOld, readyOld, readyOld, startingOld, deadOld), pod(4, notReady), "DeletePod m-3"},
		"quorum may be on lost nodes that reported dead members":             {of(-1, runningOld, deadOld, deadOld), twice(pod(1, notReady), pod(2, notReady)), "hold QuorumLossConfirmed m-2"},
		"a member on a lost node does not count as running without a leader": {lasting(of(-1, runningOld, runningOld, frozenOld, runningOld, runningOld)), pod(2, notReady), "hold QuorumLossConfirmed m-2"},
		"AllAtOnce keeps what may be running": {of(2, deadOld, deadOld, readyOld, readyOld, readyOld), func(in *Input) {
			in.Config.NonParticipatingPods = AllAtOnce
			pod(1, notReady)(in)
		}, "DeletePod m-0"},
		"the node guard can be overridden": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			pod(1, notReady)(in)
			in.Overridden = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardNodesStable)}
		}, "DeletePod m-2"},

		"the template has changed again": {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.UpdateRevision = "newer" }, "Superseded"},
		"the strategy has changed":       {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.OnDelete = false }, "Disengaged"},
		"another operator replaces pods": {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.Objection = "it is not marked" }, "Disengaged"},
		"not observed yet":               {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.Observed = false }, "hold RevisionObserved "},
		"scaled to zero":                 {of(-1), nil, "Finished"},
		"scaled to zero, one pod left":   {of(-1), func(in *Input) { in.Snapshot.Surplus = []string{"m-0"} }, "hold OthersParticipating m-0"},
		"a restart follows the revision": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Config.Restart, in.Snapshot.StatefulSet.UpdateRevision = true, "newer"
		}, "DeletePod m-2"},
		"a restart replaces up-to-date pods": {of(0, readyNew, readyNew, readyNew), func(in *Input) {
			in.Config.Restart, in.Created = true, noon
		}, "DeletePod m-2"},
		"a restart keeps its own replacements, even those of the same second": {of(0, readyNew, readyNew, readyNew), func(in *Input) {
			in.Config.Restart, in.Created = true, noon
			in.Recorded.Pods = []v1alpha1.RolloutPod{{Name: "m-2", UID: "gone", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted}}}
		}, "DeletePod m-1"},
		"a restart keeps younger pods": {of(0, readyNew, readyNew, readyNew), func(in *Input) {
			in.Config.Restart, in.Created = true, noon
			for i := range in.Snapshot.Ordinals[1:] {
				in.Snapshot.Ordinals[i+1].Pod.Created = noon.Add(time.Second)
			}
		}, "MoveLeader m-0 to m-1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.world.input(noon, DefaultConfig())
			if c.change != nil {
				c.change(&in)
			}
			d := Decide(in, noon)
			if got := short(d, in.Snapshot); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if d.Hold() != nil && d.Hold().Message == "" || d.Step != nil && d.Step.Reason == "" {
				t.Error("the decision has no reason")
			}
		})
	}
}

func TestIntendedDeletion(t *testing.T) {
	intended := func(leader, pod int, members ...member) *world {
		w := of(leader, members...)
		w.intent = pod
		return w
	}
	recent := func(w *world) *world { w.recent = true; return w }
	eviction := func(in *Input) {
		in.Config.PodRemoval = Evict
		in.Recorded.Pods[0].LastOperation.Name = string(EvictPod)
	}
	changed := func(w *world) *world { w.changed = true; return w }
	lagging := func(w *world) *world { w.lagging = true; return w }
	inTheFuture := func(in *Input) { in.Recorded.Pods[0].Evidence.ObservedAt.Time = noon.Add(time.Hour) }
	refused := func(mayCome bool) change {
		return func(in *Input) {
			in.Refused = map[types.UID]RefusedWrite{in.Recorded.Pods[0].UID: {At: noon, MayStillHappen: mayCome}}
		}
	}
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"may not be observable yet":                        {recent(intended(0, 2, readyOld, readyOld, readyOld)), nil, "hold DeletionObserved m-2"},
		"is repeated if still valid":                       {intended(0, 2, readyOld, readyOld, readyOld), nil, "DeletePod m-2"},
		"is revoked if another pod goes first":             {intended(0, 2, readyOld, deadOld, readyOld), nil, "RevokeDeletion m-2"},
		"is revoked if no pod may be removed":              {intended(0, 2, readyOld, missing, readyOld), nil, "RevokeDeletion m-2"},
		"is revoked if nothing is left to do":              {intended(0, 2, readyNew, readyNew, readyNew), nil, "RevokeDeletion m-2"},
		"cannot happen once the pod has changed":           {changed(intended(0, 2, readyOld, deadOld, readyOld)), nil, "DeletePod m-1"},
		"may happen though a stale cache does not show it": {recent(lagging(intended(0, 2, readyOld, readyOld, readyOld))), nil, "hold DeletionObserved m-2"},
		"is revoked though a stale cache does not show it": {lagging(intended(0, 2, readyOld, deadOld, readyOld)), nil, "RevokeDeletion m-2"},
		"is repeated despite a wrong clock":                {intended(0, 2, readyOld, readyOld, readyOld), inTheFuture, "DeletePod m-2"},
		"cannot happen once it was refused":                {intended(0, 2, readyOld, deadOld, readyOld), refused(false), "DeletePod m-1"},
		"may happen though a second attempt was refused":   {intended(0, 2, readyOld, deadOld, readyOld), refused(true), "RevokeDeletion m-2"},
		"of an eviction may not be observable yet":         {recent(intended(0, 2, readyOld, readyOld, readyOld)), eviction, "hold DeletionObserved m-2"},
		"of an eviction is repeated":                       {intended(0, 2, readyOld, readyOld, readyOld), eviction, "EvictPod m-2"},
		"of an eviction is revoked":                        {intended(0, 2, readyOld, deadOld, readyOld), eviction, "RevokeDeletion m-2"},
		"does not matter once the pod terminates":          {of(0, readyOld, readyOld, terminating), nil, "hold OthersParticipating m-2"},
	} {
		t.Run(name, func(t *testing.T) {
			expectDecision(t, c.world, c.change, c.want)
		})
	}
}

// A rollout that is to pause does so where the cluster is whole, and leaves it so; anywhere else it goes on as if it were not.
func TestPausing(t *testing.T) {
	intended := func(members ...member) *world { w := of(0, members...); w.intent = 2; return w }
	changing := func(in *Input) { in.Snapshot.Changing = true }
	surges := func(in *Input) { in.Surges = true }
	nonVoter := func(in *Input) { in.Snapshot.Cluster.Voters = in.Snapshot.Cluster.Voters[:2] }
	halfway := pod(1, func(p *cluster.Pod) { p.Updating = true })
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"before the first pod":                      {of(0, readyOld, readyOld, readyOld), nil, "Paused"},
		"between two pods":                          {of(0, readyOld, readyOld, readyNew), nil, "Paused"},
		"before leadership moves":                   {of(0, readyOld, readyNew, readyNew), nil, "Paused"},
		"before the snapshot":                       {&world{members: []member{readyOld, readyOld, readyOld}, intent: -1, upgrade: unsaved}, nil, "Paused"},
		"the operator is cut off, and probes pass":  {func() *world { w := of(-1, readyOld, readyOld, readyNew); w.cutOff, w.lasted = true, true; return w }(), nil, "Paused"},
		"what was requested does not show, perhaps": {func() *world { w := intended(readyOld, readyOld, readyOld); w.recent = true; return w }(), nil, "hold DeletionObserved m-2"},
		"what was requested is revoked":             {intended(readyOld, readyOld, readyOld), nil, "RevokeDeletion m-2"},
		"its pod has just been deleted":             {of(0, readyOld, readyOld, terminating), nil, "hold OthersParticipating m-2"},
		"its replacement is not there":              {of(0, readyOld, readyOld, missing), nil, "hold OthersParticipating m-2"},
		"its replacement starts":                    {of(0, readyOld, readyOld, runningNew), nil, "hold OthersParticipating m-2"},
		"its replacement is a learner":              {of(0, readyOld, readyOld, learnerNew), nil, "hold OthersParticipating m-2"},
		"an outdated member is down":                {of(0, readyOld, readyOld, deadOld), nil, "DeletePod m-2"},
		"a pod is halfway between two revisions":    {of(0, readyOld, readyOld, readyNew), halfway, "DeletePod m-1"},
		"the size is to change after the rollout":   {of(0, readyOld, readyOld, readyNew), changing, "Paused"},
		"members change":                            {of(0, readyOld, readyOld, readyNew, readyNew), changing, "hold VotersOdd m-1"},
		"not all of them vote":                      {of(0, readyOld, readyOld, readyNew), nonVoter, "hold VotersOdd m-1"},
		"before a second member takes over":         {of(0, readyOld), surges, "Paused"},
		"while it is a learner":                     {of(0, readyOld, learnerNew), twice(surges, changing), "hold OthersParticipating m-1"},
		"while both vote":                           {of(0, readyOld, readyNew), twice(surges, changing), "hold MemberRelieved m-0"},
		"the template has changed":                  {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.UpdateRevision = "newer" }, "Superseded"},
		"all are updated":                           {of(0, readyNew, readyNew, readyNew), nil, "Finished"},
		"all are updated, and one is down":          {of(0, readyNew, readyNew, deadNew), nil, "hold OthersParticipating m-2"},
	} {
		t.Run(name, func(t *testing.T) {
			expectDecision(t, c.world, func(in *Input) {
				if in.Pausing = true; c.change != nil {
					c.change(in)
				}
			}, c.want)
		})
	}
	// No second member begins to take over during the pause, and nothing blocks.
	in := of(0, readyOld).input(noon, DefaultConfig())
	in.Surges, in.Pausing, in.Recorded.Relieve, in.Recorded.HeldBy = true, true, "pod", &v1alpha1.Hold{Guard: v1alpha1.GuardMemberRelieved}
	if r := Record(in, Decide(in, noon), noon); r.Relieve != "" || r.HeldBy != nil {
		t.Errorf("%+v", r)
	}
	// Nor while the only one is away for a moment.
	in = of(0, frozenOld).input(noon, DefaultConfig())
	in.Surges, in.Pausing = true, true
	if r := Record(in, Decide(in, noon), noon); r.Relieve != "" {
		t.Errorf("%+v", r)
	}
}

// expectDecision expects what is decided in a world after a change, which may be nil.
func expectDecision(t *testing.T, w *world, change func(*Input), want string) {
	t.Helper()
	in := w.input(noon, DefaultConfig())
	if change != nil {
		change(&in)
	}
	if got := short(Decide(in, noon), in.Snapshot); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An intent is what was recorded, shows no effect, and may still be carried out.
func TestIsIntent(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, readyOld)
	w.intent = 2
	in := w.input(noon, DefaultConfig())
	g.Expect(IsIntent(in, w.uid(2), noon)).To(BeTrue())
	g.Expect(IsIntent(in, w.uid(1), noon)).To(BeFalse())
	w.changed = true
	g.Expect(IsIntent(w.input(noon, DefaultConfig()), w.uid(2), noon)).To(BeFalse())
}

func TestTimers(t *testing.T) {
	g := NewWithT(t)
	at := func(seconds int, w *world) *cluster.Snapshot {
		return w.snapshot(noon.Add(time.Duration(seconds) * time.Second))
	}
	healthy, leaderless := of(0, readyOld, readyOld, readyOld), of(-1, readyOld, readyOld, readyOld)
	s := Timers{}.Next(at(0, healthy))
	g.Expect(s.LedSince).To(Equal(s.At))
	g.Expect(s.LeaderlessSince).To(BeZero())
	s = s.Next(at(1, leaderless)).Next(at(2, leaderless))
	g.Expect(s.LeaderlessSince).To(Equal(noon.Add(time.Second)))
	g.Expect(s.NotServingSince).To(HaveLen(3))
	s = s.Next(at(3, healthy))
	g.Expect(s.LeaderlessSince).To(BeZero())
	g.Expect(s.LedSince).To(Equal(noon.Add(3*time.Second)), "the leader is a new one")
	g.Expect(s.NotServingSince).To(BeEmpty())
	s = s.Next(at(4, leaderless)).Next(at(60, leaderless))
	g.Expect(s.LeaderlessSince).To(Equal(noon.Add(time.Minute)), "unobserved time does not count")

	hidden, cutOff := of(1, frozenNew, readyOld, readyOld), of(1, readyOld, readyOld, readyOld)
	hidden.hidden, cutOff.cutOff = true, true
	s = Timers{}.Next(at(0, hidden)).Next(at(1, hidden))
	g.Expect(s.LeaderlessSince).To(BeZero(), "members with passing probes may be a quorum")
	g.Expect(s.NoAnswerSince).To(BeZero(), "one answers")
	s = s.Next(at(2, cutOff)).Next(at(3, cutOff))
	g.Expect(s.LeaderlessSince).To(BeZero())
	g.Expect(s.NoAnswerSince).To(Equal(noon.Add(2 * time.Second)))
	g.Expect(s.Running).To(HaveLen(3))
	restarted := at(4, cutOff)
	restarted.Ordinals[1].Pod.EtcdStarted = noon.Add(time.Hour)
	s = s.Next(restarted)
	g.Expect(s.Running[restarted.Ordinals[0].Pod.UID].Since).To(Equal(noon), "by the operator's own clock")
	g.Expect(s.Running[restarted.Ordinals[1].Pod.UID].Since).To(Equal(noon.Add(4*time.Second)), "regardless of the kubelet's clock")
	foreign := of(-1, frozenReadyOld, runningOld, runningOld)
	g.Expect(Timers{}.Next(at(0, foreign)).LeaderlessSince).NotTo(BeZero(), "one of three is no quorum")
	foreign.foreignDown = 2
	g.Expect(Timers{}.Next(at(0, foreign)).LeaderlessSince).To(BeZero(), "with two foreign voters of five it is")
}

func TestRecordOfARollout(t *testing.T) {
	g := NewWithT(t)
	w := of(1, frozenOld, readyOld, readyOld)
	in := w.input(noon, DefaultConfig())
	r := Record(in, Decide(in, noon), noon)
	g.Expect(r.TargetRevision).To(Equal(newRevision))
	g.Expect(r.Replicas).To(Equal(int32(3)))
	g.Expect(r.ParticipatingReplicas).To(Equal(int32(2)))
	g.Expect(r.HeldBy).To(BeNil())
	g.Expect(r.Pods).To(HaveLen(1))
	p := r.Pods[0]
	g.Expect(p.Name).To(Equal("m-0"))
	g.Expect(p.Class).To(Equal(v1alpha1.ClassUnready))
	g.Expect(p.LastOperation.State).To(Equal(v1alpha1.OperationStateInProgress))
	g.Expect(p.Evidence.Serving).To(Equal([]string{"m-1", "m-2"}))
	g.Expect(p.Evidence.Leader).To(Equal("m-1"))
	g.Expect(p.Evidence.Quorum).To(Equal(int32(2)))

	// The pod is gone: the rollout is blocked since the guard first blocked it.
	w.members[0] = missing
	w.generation[0]++
	later := noon.Add(10 * time.Second)
	in = w.input(later, DefaultConfig())
	in.Recorded = r
	r = Record(in, Decide(in, later), later)
	g.Expect(r.HeldBy.Guard).To(Equal(v1alpha1.GuardOthersParticipating))
	g.Expect(r.HeldBy.Pod).To(Equal("m-0"))
	w.members[0], in.Recorded = startingNew, r
	in.Snapshot = w.snapshot(later.Add(time.Second))
	r = Record(in, Decide(in, later.Add(time.Second)), later.Add(time.Second))
	g.Expect(r.HeldBy.Since.Time).To(Equal(later), "only the wording changed")

	// The new pod participates: the replacement is complete.
	w.members[0] = readyNew
	in.Snapshot, in.Recorded = w.snapshot(later), r
	r = Record(in, Decide(in, later), later)
	g.Expect(r.Pods[0].LastOperation.State).To(Equal(v1alpha1.OperationStateCompleted))
	g.Expect(r.UpdatedReplicas).To(Equal(int32(1)))
}

// The rollout says which pod is to be replaced by way of a second member, whatever else it does, and as long as that is so.
func TestRelief(t *testing.T) {
	of0, of1 := of(0, readyOld).uid(0), of(0, readyOld, readyOld).uid(1)
	for name, c := range map[string]struct {
		world  *world
		change change
		want   types.UID
	}{
		"the only member":              {of(0, readyOld), nil, of0},
		"an agent that may be too old": {of(0, readyOld), pod(0, func(p *cluster.Pod) { p.AgentOutdated = true }), of0},
		"an agent that is too old": {of(0, readyOld), func(in *Input) {
			in.Snapshot.Ordinals[0].Pod.AgentOutdated = true
			in.Timers.Running[in.Snapshot.Ordinals[0].Pod.UID] = Running{Since: noon.Add(-agentPatience)}
		}, ""},
		"while the second one is a learner":         {of(0, readyOld, learnerNew), nil, of0},
		"while the second one does not start":       {of(0, readyOld, deadOld), nil, of0},
		"while both vote":                           {of(0, readyOld, readyNew), nil, of0},
		"while the StatefulSet is being scaled":     {of(0, readyOld), func(in *Input) { in.Snapshot.StatefulSet.Observed = false }, of0},
		"it is back":                                {of(0, readyNew, readyNew), nil, ""},
		"only the second one is outdated":           {of(0, readyNew, readyOld), nil, ""},
		"the Etcd does not surge":                   {of(0, readyOld), func(in *Input) { in.Surges = false }, ""},
		"several vote":                              {of(0, readyOld, readyOld, readyOld), nil, ""},
		"a person overrides it":                     {of(0, readyOld), override(v1alpha1.GuardMemberRelieved), ""},
		"a version that etcd does not take":         {&world{members: []member{readyOld}, intent: -1, upgrade: skipsMinor}, nil, ""},
		"unless a person overrides that":            {&world{members: []member{readyOld}, intent: -1, upgrade: skipsMinor}, override(v1alpha1.GuardVersionsCompatible), of0},
		"before the snapshot":                       {&world{members: []member{readyOld}, intent: -1, upgrade: unsaved}, nil, ""},
		"an image without a version":                {&world{members: []member{readyOld, startingNew}, intent: -1, upgrade: blind}, func(in *Input) { in.Backup.Configured = false }, of0},
		"resources that are raised in place":        {&world{members: []member{readyOld}, intent: -1, kind: raised}, nil, ""},
		"an update in place that restarts the etcd": {&world{members: []member{readyOld}, intent: -1, kind: restarted}, nil, of0},
	} {
		in := c.world.input(noon, DefaultConfig())
		in.Surges = true
		if c.change != nil {
			c.change(&in)
		}
		if got := Record(in, Decide(in, noon), noon).Relieve; got != c.want {
			t.Errorf("%s: %q, and not %q (%q is the second)", name, got, c.want, of1)
		}
	}
}

// Where the newest template changes how the only member is reached, a second one would not find it.
func TestSurges(t *testing.T) {
	for name, c := range map[string]struct {
		policy v1alpha1.SurgePolicy
		pod    *cluster.Pod
		spec   v1alpha1.EtcdConfig
		want   bool
	}{
		"it is reached as before":    {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "http://192.0.2.1:2379"}, v1alpha1.EtcdConfig{}, true},
		"the same at another port":   {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "http://192.0.2.1:3379"}, v1alpha1.EtcdConfig{ClientPort: ptr.To(int32(3379))}, true},
		"the same by TLS":            {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "https://[2001:db8::1]:2379", PeerTLS: v1alpha1.TLSOn}, v1alpha1.EtcdConfig{ClientURLTLS: &v1alpha1.ClientURLTLS{}, PeerURLTLS: &v1alpha1.PeerURLTLS{}}, true},
		"its address is not known":   {v1alpha1.SurgeSingleMember, &cluster.Pod{}, v1alpha1.EtcdConfig{}, true},
		"it has no pod":              {v1alpha1.SurgeSingleMember, nil, v1alpha1.EtcdConfig{}, true},
		"the policy is another":      {v1alpha1.SurgeNever, &cluster.Pod{Endpoint: "http://192.0.2.1:2379"}, v1alpha1.EtcdConfig{}, false},
		"the port changes":           {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "http://192.0.2.1:2379"}, v1alpha1.EtcdConfig{ClientPort: ptr.To(int32(3379))}, false},
		"clients get TLS":            {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "http://192.0.2.1:2379"}, v1alpha1.EtcdConfig{ClientURLTLS: &v1alpha1.ClientURLTLS{}}, false},
		"clients have TLS no longer": {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "https://192.0.2.1:2379"}, v1alpha1.EtcdConfig{}, false},
		"peers get TLS":              {v1alpha1.SurgeSingleMember, &cluster.Pod{Endpoint: "http://192.0.2.1:2379"}, v1alpha1.EtcdConfig{PeerURLTLS: &v1alpha1.PeerURLTLS{}}, false},
	} {
		etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 1, SurgePolicy: c.policy, Etcd: c.spec}}
		for what, replicas := range map[string]int32{"": 1, ", and it is to hibernate": 0} {
			etcd.Spec.Replicas = replicas
			if got := Surges(etcd, &cluster.Snapshot{Ordinals: []cluster.Ordinal{{Pod: c.pod}}}); got != c.want {
				t.Errorf("%s%s: %v", name, what, got)
			}
		}
	}
}

func TestRecordOfADeletionThatDidNotHappen(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, readyOld)
	w.intent, w.changed = 2, true
	in := w.input(noon, DefaultConfig())
	in.Recorded.Pods[0].LastOperation.Reason = "it was its turn"
	r := Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon)
	g.Expect(r.Pods[0].LastOperation.State).To(Equal(v1alpha1.OperationStateFailed))
	g.Expect(in.Recorded.Pods[0].LastOperation.State).To(Equal(v1alpha1.OperationStateInProgress), "the input is unchanged")
}

// The record says why a removal did not happen.
func TestRecordOfADeletionThatWasRefused(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, readyOld)
	w.intent, w.recent = 2, true
	in := w.input(noon, DefaultConfig())
	in.Refused = map[types.UID]RefusedWrite{w.uid(2): {At: noon, Message: "the policy says no"}}
	r := Record(in, Decide(in, noon), noon)
	g.Expect(r.Pods[0].LastOperation.State).To(Equal(v1alpha1.OperationStateFailed))
	g.Expect(r.Pods[0].LastOperation.Reason).To(HaveSuffix("not carried out: the policy says no"))

	w.changed = true
	in = w.input(noon, DefaultConfig())
	in.Refused = map[types.UID]RefusedWrite{w.uid(2): {At: noon.Add(-time.Hour), Message: "the policy says no"}}
	r = Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon)
	g.Expect(r.Pods[0].LastOperation.Reason).To(HaveSuffix("not carried out: the pod has changed since"), "an earlier attempt was refused")
}

// What is counted as updated is there, and stays. A pod that is still there is no progress, whatever its ordinal. What is tried again
// is recorded once.
func TestRecordCountsWhatIsThere(t *testing.T) {
	g := NewWithT(t)
	in := of(0, readyNew, missing, terminating).input(noon, DefaultConfig())
	g.Expect(Record(in, Decide(in, noon), noon).UpdatedReplicas).To(BeEquivalentTo(1))

	w := of(1, frozenOld, readyOld, readyOld)
	w.intent = 0
	in = w.input(noon, DefaultConfig())
	in.Recorded.LastProgressTime, in.Recorded.MostParticipatingReplicas = &metav1.Time{Time: noon.Add(-2 * time.Hour)}, 3
	d := Decide(in, noon)
	g.Expect(short(d, in.Snapshot)).To(Equal("DeletePod m-0"))
	r := Record(in, d, noon)
	g.Expect(r.LastProgressTime).To(Equal(in.Recorded.LastProgressTime))
	g.Expect(r.Pods).To(HaveLen(1))
	g.Expect(r.Pods[0].Evidence.ObservedAt.Time).To(Equal(noon))
}

// A restart in place asks the PodDisruptionBudget where a removal would, and waits where it says no. Steps that disturb no member do not.
func TestUpdatesInPlaceAskTheBudget(t *testing.T) {
	refused := func(byBudget bool) map[types.UID]RefusedWrite {
		return map[types.UID]RefusedWrite{of(0, readyOld).uid(2): {At: noon, ByBudget: byBudget, Message: "the budget says no"}}
	}
	for name, c := range map[string]struct {
		kind    kind
		phase   phase
		change  change
		refused map[types.UID]RefusedWrite
		// asks the budget, or is held.
		asks, held bool
	}{
		"a restart":                       {kind: restarted, phase: marked, asks: true},
		"before the mark":                 {kind: restarted, asks: true},
		"a lowering":                      {kind: lowered, phase: marked, asks: true},
		"after the restart":               {kind: restarted, phase: carried},
		"a raise":                         {kind: raised, phase: marked},
		"podRemoval Delete":               {kind: restarted, phase: marked, change: config(func(c *Config) { c.PodRemoval = Delete })},
		"refused by the budget":           {kind: restarted, phase: marked, refused: refused(true), held: true},
		"refused by a webhook":            {kind: restarted, phase: marked, refused: refused(false), held: true},
		"a raise of a pod with a refusal": {kind: raised, phase: marked, refused: refused(true)},
		"overridden": {kind: restarted, phase: marked, refused: refused(true), change: func(in *Input) {
			in.Overridden = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardRemovalGranted)}
		}},
	} {
		w := of(0, readyOld, readyOld, readyOld)
		w.kind, w.phase[2], w.lasted = c.kind, c.phase, true
		in := w.input(noon, DefaultConfig())
		in.Config.PodRemoval, in.Refused = Evict, c.refused
		if c.change != nil {
			c.change(&in)
		}
		d := Decide(in, noon)
		if c.held != (d.Conclusion == Wait) || c.held && (d.Hold().Guard != v1alpha1.GuardRemovalGranted || d.Hold().Pod != "m-2" || !strings.Contains(d.Hold().Message, "the budget says no")) {
			t.Errorf("%s: %+v, %+v", name, d, d.Hold())
		}
		if !c.held && (d.Step == nil || d.Step.Write == nil || d.Step.Ordinals[0] != 2 || d.Step.AsksBudget != c.asks) {
			t.Errorf("%s: %+v, %+v", name, d, d.Step)
		}
	}
}

// A removal that is refused and retried is no progress.
func TestRepeatedAttemptsAreNoProgress(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, readyOld)
	in := w.input(noon, DefaultConfig())
	in.Config.PodRemoval = Evict
	record := func(at time.Time) (Decision, v1alpha1.RolloutStatus) {
		d := Decide(in, at)
		in.Recorded = Record(in, d, at)
		return d, in.Recorded
	}
	refuse := func(at time.Time) {
		in.Refused = map[types.UID]RefusedWrite{w.uid(2): {At: at, ByBudget: true, Message: "the budget says no"}}
		in.Snapshot.At = at
	}
	_, first := record(noon)
	g.Expect(first.LastProgressTime.Time).To(Equal(noon))
	g.Expect(first.Pods).To(HaveLen(1))
	refuse(noon)
	_, blocked := record(noon)
	g.Expect(blocked.HeldBy.Guard).To(Equal(v1alpha1.GuardRemovalGranted))

	later := noon.Add(in.Config.ProgressDeadline.Duration)
	d, again := record(later)
	g.Expect(d.Step.Action).To(Equal(EvictPod))
	g.Expect(again.LastProgressTime.Time).To(Equal(noon))
	g.Expect(again.HeldBy.Since.Time).To(Equal(noon), "it has been blocked since the first refusal")
	refuse(later)
	g.Expect(Record(in, Decide(in, later), later).LastProgressTime.Time).To(Equal(noon))

	w.members[2] = terminating
	in.Snapshot, in.Refused = w.snapshot(later), nil
	_, goes := record(later)
	g.Expect(goes.LastProgressTime.Time).To(Equal(later), "the pod is removed")
	_, gone := record(later.Add(time.Minute))
	g.Expect(gone.LastProgressTime.Time).To(Equal(later), "it is removed only once")
}

// The reason of a removal is true for the pod and the others.
func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"a follower":      {of(0, readyOld, readyOld, readyOld), nil, "m-2 is a follower, and all others participate"},
		"the leader":      {of(0, readyOld, readyNew, readyNew), config(func(c *Config) { no := false; c.LeaderHandover = &no }), "m-0 leads and is the last one"},
		"of unknown role": {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.Ordinals[2].Role = v1alpha1.RoleUnknown }, "m-2 is next, and all others participate"},
		"others are down": {of(0, readyOld, readyOld, readyOld, readyOld, deadNew), func(in *Input) { in.Overridden = []v1alpha1.OverridableGuard{"OthersParticipating"} }, "m-3 is next, although not all others participate"},
		"the leader first": {of(0, readyOld, readyOld, readyOld), func(in *Input) {
			in.Config.PodRemoval, in.Snapshot.Ordinals[0].Pod.AllContainersReady = Evict, false
		}, "m-0 leads; one of its containers is not ready, so it goes first"},
	} {
		in := c.world.input(noon, DefaultConfig())
		if c.change != nil {
			c.change(&in)
		}
		if d := Decide(in, noon); d.Step == nil || d.Step.Reason != c.want {
			t.Errorf("%s: %+v, want %q", name, d.Step, c.want)
		}
	}
}

// A hold says why a voter does not count.
func TestDownVoters(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, runningOld, readyNew)
	in := w.input(noon, DefaultConfig())
	behind := &in.Snapshot.Ordinals[2]
	behind.Class, behind.Serving, behind.Lag, in.Snapshot.Cluster.Voters[2].Serving = v1alpha1.ClassUnready, false, 4_999_988, false
	in.Snapshot.Ordinals[1].Serving, in.Snapshot.Cluster.Voters[1].Serving = false, false
	d := Decide(in, noon)
	g.Expect(short(d, in.Snapshot)).To(Equal("hold QuorumKept m-1"), "a member that catches up replaces no voter")
	g.Expect(d.Hold().Message).To(ContainSubstring("m-2 (more than 500000 raft entries behind)"))
	g.Expect(adviceFor(*behind, "m")).To(ContainSubstring("is more than 500000 raft entries behind the leader"))

	cutOff := of(0, readyOld, readyOld, readyOld)
	cutOff.cutOff, cutOff.lasted = true, true
	in = cutOff.input(noon, DefaultConfig())
	in.Snapshot.StatefulSet.EtcdVersion = ""
	for i, tag := range []string{"3.6.8", "3.5.18", ""} {
		in.Snapshot.Ordinals[i].Pod.EtcdVersion = tag
	}
	d = Decide(in, noon)
	g.Expect(short(d, in.Snapshot)).To(HavePrefix("hold "), "two may be learners")
	g.Expect(d.Hold().Message).To(ContainSubstring("Possibly learners although they are ready"))

	silent := of(0, readyOld, frozenReadyOld, frozenOld)
	for period, want := range map[time.Duration]string{time.Minute: "2m0s", time.Hour: "1h0m0s"} {
		in = silent.input(noon, DefaultConfig())
		in.Config.UnreadyGracePeriod.Duration = period
		hold := quorumKept(&state{Input: in, now: noon}, &Step{Ordinals: []int{0}})
		g.Expect(hold.Message).To(ContainSubstring("its readiness probe passes, and counts once it has for " + want))
	}
}

// A stale cache may show a pod as it was before its deletion was decided on live reads.
func TestRecordOfADeletionWithAStaleCache(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, readyOld)
	w.intent, w.lagging = 2, true
	in := w.input(noon, DefaultConfig())
	r := Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon)
	g.Expect(r.Pods[0].LastOperation.State).To(Equal(v1alpha1.OperationStateInProgress))
}

func TestRecordIsBounded(t *testing.T) {
	w := of(0, readyOld, readyOld, readyOld)
	in := w.input(noon, DefaultConfig())
	for i := range maxRecordedPods {
		in.Recorded.Pods = append(in.Recorded.Pods, v1alpha1.RolloutPod{UID: types.UID(fmt.Sprint(i))})
	}
	r := Record(in, Decide(in, noon), noon)
	if len(r.Pods) != maxRecordedPods || !slices.ContainsFunc(r.Pods, func(p v1alpha1.RolloutPod) bool { return p.Name == "m-2" }) {
		t.Errorf("%d pods are recorded", len(r.Pods))
	}
}

// The members know their new leader a heartbeat after the handover.
func TestHandoverUnderWay(t *testing.T) {
	g := NewWithT(t)
	underWay := func(w *world, ago time.Duration) bool {
		last := &v1alpha1.LeaderHandover{From: "m-0", To: "m-1", Attempts: 1, LastAttemptTime: metav1.Time{Time: noon.Add(-ago)}}
		return IsHandoverUnderWay(last, w.snapshot(noon), noon)
	}
	g.Expect(underWay(of(0, readyOld, readyNew, runningNew), time.Second)).To(BeTrue(), "the old leader still leads")
	g.Expect(underWay(of(0, readyOld, readyNew, runningNew), HandoverWindow)).To(BeFalse(), "the handover failed")
	g.Expect(underWay(of(-1, readyOld, readyNew, runningNew), time.Second)).To(BeTrue(), "no member knows a leader")
	g.Expect(underWay(of(1, readyOld, readyNew, runningNew), time.Second)).To(BeFalse(), "all members know the new leader")
	g.Expect(underWay(of(1, readyOld, readyNew, startingNew), time.Second)).To(BeFalse(), "all answering members know the new leader")
}

// The status lists all guards that block the next step, the first of them in heldBy as well, for as long as they do. It stays the same
// while nothing changes, so that it is not written again.
func TestAllGuardsThatBlockAreRecorded(t *testing.T) {
	g := NewWithT(t)
	in := of(0, readyOld, readyOld, deadNew).input(noon, DefaultConfig())
	d := Decide(in, noon)
	g.Expect(d.Hold()).To(Equal(&d.Blocking[0]))
	g.Expect(d.Blocking).To(Equal(Holding(in, noon)))
	r := Record(in, d, noon)
	g.Expect(r.BlockedBy).To(HaveLen(2))
	g.Expect(r.BlockedBy).To(Equal(d.Blocking))
	g.Expect(r.BlockedBy[1].Guard).To(Equal(v1alpha1.GuardQuorumKept))
	g.Expect(r.HeldBy.Guard).To(Equal(r.BlockedBy[0].Guard))
	in.Recorded = r
	later := noon.Add(time.Second)
	g.Expect(Record(in, Decide(in, later), later)).To(Equal(r))

	back := of(0, readyOld, readyOld, readyNew).input(later, DefaultConfig())
	back.Recorded = r
	g.Expect(Record(back, Decide(back, later), later).BlockedBy).To(BeEmpty())
	g.Expect(Decide(back, later).Hold()).To(BeNil())

	unseen := of(0, readyOld, readyOld, deadNew)
	unseen.unobserved = true
	d = Decide(unseen.input(noon, DefaultConfig()), noon)
	g.Expect(d.Hold().Guard).To(Equal(v1alpha1.GuardRevisionObserved))
	g.Expect(d.Blocking).To(HaveLen(3), "what would block then is listed, too")
}

// How far a member is behind changes from one second to the next. What the status says of it does not, since each change of the
// status is a write.
func TestTheMessagesOfGuardsThatBlockStayAsTheyAre(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, readyOld, deadNew)
	in := w.input(noon, DefaultConfig())
	in.Snapshot.Ordinals[1].Serving, in.Snapshot.Ordinals[1].Lag = false, cluster.MaxLag+1
	in.Snapshot.Cluster.Voters[1].Serving = false
	r := Record(in, Decide(in, noon), noon)
	g.Expect(r.BlockedBy).To(ContainElement(HaveField("Message", ContainSubstring("raft entries behind"))))
	for range 60 {
		in.Recorded = r
		in.Snapshot.Ordinals[1].Lag += 17
		g.Expect(Record(in, Decide(in, noon), noon)).To(Equal(r))
	}
}

// What keeps a pod is named: a node that is gone is not the only reason why one does not terminate.
func TestAPodThatFinalizersKeepIsSaidToBe(t *testing.T) {
	g := NewWithT(t)
	in := of(0, readyOld, readyOld, terminating).input(noon, DefaultConfig())
	g.Expect(Decide(in, noon).Hold().Message).To(ContainSubstring("taint the node"))
	in.Snapshot.Ordinals[2].Pod.Finalizers = []string{"example.com/keep"}
	g.Expect(Decide(in, noon).Hold().Message).To(Equal("m-2 is terminating, and is kept by finalizers (example.com/keep): if this persists, check what set them, which has to remove them"))
}

// The grace period is part of the step and of its intent. An intent with a shorter one than the step is revoked: its member
// serves now, and the intent may still be carried out.
func TestGracePeriodOfARemoval(t *testing.T) {
	g := NewWithT(t)
	in := of(1, frozenOld, readyOld, readyOld).input(noon, DefaultConfig())
	d := Decide(in, noon)
	g.Expect(d.Step.Grace).To(Equal(map[int]time.Duration{0: 2 * time.Second}))
	g.Expect(d.Step.Reason).To(HaveSuffix("; m-0 gets a grace period of 2s (its own is 30s): its readiness probe fails and it does not answer"))
	recorded := Record(in, d, noon)
	g.Expect(recorded.Pods[0].GracePeriodSeconds).To(HaveValue(BeEquivalentTo(2)))

	later := noon.Add(time.Minute)
	serves := of(1, runningOld, readyOld, readyOld).input(later, DefaultConfig())
	serves.Recorded = recorded
	g.Expect(short(Decide(serves, later), serves.Snapshot)).To(Equal("RevokeDeletion m-0"))
	still := of(1, frozenOld, readyOld, readyOld).input(later, DefaultConfig())
	still.Recorded = recorded
	g.Expect(short(Decide(still, later), still.Snapshot)).To(Equal("DeletePod m-0"), "it is repeated as it was")
	slower := still
	slower.Config.NonServingGracePeriod = &metav1.Duration{Duration: 5 * time.Second}
	g.Expect(short(Decide(slower, later), slower.Snapshot)).To(Equal("RevokeDeletion m-0"))
	quicker := still
	quicker.Config.NonServingGracePeriod = &metav1.Duration{Duration: time.Second}
	g.Expect(short(Decide(quicker, later), quicker.Snapshot)).To(Equal("DeletePod m-0"))

	healthy := of(1, readyNew, readyOld, readyOld).input(noon, DefaultConfig())
	g.Expect(Record(healthy, Decide(healthy, noon), noon).Pods[0].GracePeriodSeconds).To(BeNil())
	all := of(2, deadOld, startingOld, readyOld, readyNew, readyNew).input(noon, DefaultConfig())
	all.Config.NonParticipatingPods = AllAtOnce
	all.Snapshot.Ordinals[1].Pod.Node.Trouble = "not ready"
	g.Expect(Decide(all, noon).Step.Grace).To(Equal(map[int]time.Duration{0: 2 * time.Second}), "each pod has its own")
}

// While the operator reaches no member, none can join it, and no task is named that is not created.
func TestTheOnlyMemberWhileCutOff(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld)
	w.cutOff, w.lasted = true, true
	only := w.input(noon, DefaultConfig())
	only.Surges = true
	d := Decide(only, noon)
	g.Expect(short(d, only.Snapshot)).To(Equal("hold MemberRelieved m-0"), "it serves its clients")
	g.Expect(d.Hold().Message).To(And(ContainSubstring("the operator reaches no member, and until it does none can join: check NetworkPolicies and TLS"),
		ContainSubstring("if only this rollout can fix that, add MemberRelieved to spec.overrideGuards"), Not(ContainSubstring("see the task"))))
	override(v1alpha1.GuardMemberRelieved)(&only)
	g.Expect(short(Decide(only, noon), only.Snapshot)).To(Equal("DeletePod m-0"))
}

// The fallback to readiness probes is promised where it comes.
func TestWhatIsPromisedWhileCutOff(t *testing.T) {
	g := NewWithT(t)
	said := func(lasted, joined bool) *Hold {
		w := of(0, readyOld, readyOld, readyOld)
		w.cutOff, w.lasted = true, lasted
		in := w.input(noon, DefaultConfig())
		in.HasSource = joined
		return Decide(in, noon).Hold()
	}
	const promise = "the rollout goes by readiness probes"
	g.Expect(said(false, false).Message).To(ContainSubstring(promise))
	for _, lasted := range []bool{false, true} {
		hold := said(lasted, true)
		g.Expect(hold.Guard).To(Equal(v1alpha1.GuardQuorumLossConfirmed))
		g.Expect(hold.Message).NotTo(ContainSubstring(promise), "members of the source cluster may vote")
	}
}
