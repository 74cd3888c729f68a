// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Each file in testdata describes a rollout: a cluster, what happens to it, and each decision with its reason. See
// testdata/README.md for the lines of a scenario. "go test -run TestScenarios -rewrite" accepts differences.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{t: t}
		datadriven.RunTest(t, path, s.run)
	})
}

// scenario is a cluster and its operator.
type scenario struct {
	t      *testing.T
	now    time.Time
	pods   []*actor
	leader string // the pod of the leader; empty if there is none
	set    cluster.StatefulSet
	task   Input // Config, Overridden, Recorded, Timers, Refused, Updates, Backup
	// etcd and image are the versions of the old and the new revision. templates are those of revisions, if pods are updated in place.
	etcd, image string
	templates   map[string]*inplace.Template
	lastSay     string
}

// actor is an ordinal of the cluster.
type actor struct {
	name, state, revision    string
	generation, version      int
	started                  time.Time
	lag                      uint64
	reachable                bool
	node                     cluster.Node
	volume, trouble, refusal string
	disrupted                bool
	// whole is the pod as the API server has it, if pods are updated in place.
	whole *corev1.Pod
}

const (
	stateReady       = "ready"        // answers, and its probe passes
	stateRunning     = "running"      // answers, and its probe fails
	stateFrozen      = "frozen"       // is running, does not answer, and its probe fails
	stateFrozenReady = "frozen-ready" // the same, but the kubelet does not report it yet
	stateLearner     = "learner"
	stateStarting    = "starting"
	stateDead        = "dead"
	stateMissing     = "missing"
	stateTerminating = "terminating"
)

func (a *actor) isUp() bool {
	return slices.Contains([]string{stateReady, stateRunning, stateFrozen, stateFrozenReady, stateLearner}, a.state)
}

func (a *actor) answers() bool {
	return a.reachable && (a.state == stateReady || a.state == stateRunning || a.state == stateLearner)
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "cluster":
		s.begin(d)
		return ""
	case "decide":
		s.lastSay = ""
		return s.reconcile()
	case "pass":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return s.pass(span)
	case "then":
		for line := range strings.Lines(d.Input) {
			if err := s.event(strings.Fields(line)); err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
		}
		return ""
	}
	d.Fatalf(t, "no such command: %s", d.Cmd)
	return ""
}

// begin creates the cluster of a scenario. Every pod is at the old revision unless the scenario says otherwise.
func (s *scenario) begin(d *datadriven.TestData) {
	*s = scenario{t: s.t, now: noon, set: cluster.StatefulSet{Name: "m", Observed: true, OnDelete: true, UpdateRevision: "new"}, etcd: "3.6.8", image: "3.6.8"}
	s.task.Config, s.task.Created = DefaultConfig(), noon
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "evict":
			s.task.Config.PodRemoval = Evict
		case "all-at-once":
			s.task.Config.NonParticipatingPods = AllAtOnce
		case "restart":
			s.task.Config.Restart = true
		case "no-handover":
			s.task.Config.LeaderHandover = ptr.To(false)
		case "in-place":
			s.task.Config.PodUpdatePolicy = v1alpha1.InPlaceIfPossible
			s.templates = map[string]*inplace.Template{"old": s.template("1Gi"), "new": s.template(arg.Vals[0])}
		case "etcd":
			s.etcd, s.image = arg.Vals[0], arg.Vals[0]
		case "image":
			s.image = arg.Vals[0]
		case "store":
			s.task.Backup.Configured = true
		case "override":
			for _, g := range arg.Vals {
				s.task.Overridden = append(s.task.Overridden, v1alpha1.OverridableGuard(g))
			}
		default:
			d.Fatalf(s.t, "no such option: %s", arg.Key)
		}
	}
	s.set.EtcdVersion = s.image
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		a := &actor{name: words[0], state: words[1], revision: "old", reachable: true, started: noon.Add(-time.Hour), node: cluster.Node{Name: "n-" + words[0]}}
		for _, word := range words[2:] {
			switch word {
			case "leader":
				s.leader = a.name
			case "new":
				a.revision = "new"
			default:
				a.trouble = strings.TrimSpace(a.trouble + " " + word)
			}
		}
		s.recreate(a)
		s.pods = append(s.pods, a)
	}
}

// pass advances time; the operator reconciles every second. It returns the operator's new messages and steps.
func (s *scenario) pass(span time.Duration) string {
	var out strings.Builder
	for end := s.now.Add(span); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		out.WriteString(s.reconcile())
	}
	return out.String()
}

// reconcile has the operator decide, record and carry out the decision once. It returns the message if it is new.
func (s *scenario) reconcile() string {
	in := s.task
	in.Snapshot = s.snapshot()
	s.task.Timers = s.task.Timers.Next(in.Snapshot)
	in.Timers = s.task.Timers
	s.assess(in.Snapshot)
	in.Updates = s.task.Updates
	d := Decide(in, s.now)
	s.task.Recorded = Record(in, d, s.now)
	say := string(d.Conclusion)
	switch {
	case d.Hold() != nil:
		say = fmt.Sprintf("blocked by %s: %s", d.Hold().Guard, d.Hold().Message)
	case d.Step != nil:
		say = fmt.Sprintf("%s: %s", short(d, in.Snapshot), d.Step.Reason)
		s.carryOut(d.Step)
	}
	if d.Step == nil && say == s.lastSay {
		return ""
	}
	s.lastSay = say
	return fmt.Sprintf("%5s  %s\n", s.now.Sub(noon), say)
}

func (s *scenario) carryOut(step *Step) {
	for _, i := range step.Ordinals {
		a := s.pods[i]
		switch step.Action {
		case DeletePod, EvictPod:
			if _, refused := s.task.Refused[a.uid()]; refused {
				continue
			}
			s.remove(a)
		case RevokeDeletion:
			a.version++
		case MoveLeader:
			s.leader = s.pods[step.Successor].name
		case PatchMetadata, ResizePod, UpdateContainer:
			s.write(a, *step.Write)
		}
	}
}

func (s *scenario) remove(a *actor) {
	a.state, a.revision, a.generation, a.lag, a.trouble = stateMissing, s.set.UpdateRevision, a.generation+1, 0, ""
	s.recreate(a)
	if s.leader == a.name {
		s.leader = ""
	}
}

func (a *actor) uid() types.UID { return types.UID(fmt.Sprintf("%s-%d", a.name, a.generation)) }

func (s *scenario) actor(name string) (*actor, error) {
	for _, a := range s.pods {
		if a.name == name {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no such pod: %q", name)
}

// event applies an event to the cluster.
func (s *scenario) event(words []string) error {
	switch subject := words[0]; subject {
	case "leader":
		s.leader = strings.TrimSuffix(words[1], "none")
		return nil
	case "template":
		s.set.UpdateRevision = words[1]
		return nil
	case "image":
		s.image, s.set.EtcdVersion = words[1], words[1]
		return nil
	case "snapshot":
		s.task.Backup = Backup{Configured: true, Running: words[1] == "running"}
		switch words[1] {
		case "failed":
			s.task.Backup.Failed, s.task.Backup.FailedAt = strings.Join(words[2:], " "), s.now
		case "taken":
			s.task.Backup.Taken = words[2]
		}
		return nil
	case "new-task":
		s.task.Recorded = v1alpha1.RolloutStatus{}
		return nil
	case "strategy":
		s.set.OnDelete = words[1] == "OnDelete"
		return nil
	case "controller":
		s.set.Observed = words[1] != "lags"
		return nil
	case "operator":
		return s.operatorEvent(words[1:])
	}
	a, err := s.actor(words[0])
	if err != nil {
		return err
	}
	return s.podEvent(a, words[1], words[2:])
}

func (s *scenario) operatorEvent(words []string) error {
	switch words[0] {
	case "restarts":
		s.task.Timers, s.task.Refused = Timers{}, nil
	case "paused":
		span, err := time.ParseDuration(words[1])
		s.now = s.now.Add(span)
		return err
	case "crashes":
		// It has recorded the intent to remove a pod, and crashed before the request.
		in := s.task
		in.Snapshot = s.snapshot()
		in.Timers = in.Timers.Next(in.Snapshot)
		s.task.Recorded = Record(in, Decide(in, s.now), s.now)
		s.task.Timers = Timers{}
	}
	return nil
}

func (s *scenario) podEvent(a *actor, what string, rest []string) error {
	switch what {
	case "unreachable", "reachable":
		a.reachable = what == "reachable"
	case "behind":
		lag, err := strconv.ParseUint(rest[0], 10, 64)
		a.lag = lag
		return err
	case "node":
		a.node.Trouble, a.node.Cordoned = map[string]string{"lost": "not ready"}[rest[0]], rest[0] == "cordoned"
	case "volume":
		a.volume = strings.Join(rest, " ")
	case "evicted-by-others":
		a.disrupted = true
	case "refused":
		s.task.Refused = map[types.UID]RefusedWrite{a.uid(): {At: s.now, ByBudget: rest[0] == "budget", Message: strings.Join(rest, " ")}}
	case "granted":
		s.task.Refused = nil
	case "deleted":
		s.remove(a)
	case "thawed":
		a.state = stateRunning
	case "kubelet":
		s.kubelet(a, rest[0])
	case "keeps-data-lost":
		a.refusal = v1alpha1.ReasonDataLost
	default:
		if up := a.isUp(); !up || what == "restarted" {
			a.started = s.now
		}
		if what != "restarted" {
			a.state, a.trouble = what, strings.Join(rest, " ")
		}
		a.version++
	}
	return nil
}

// snapshot returns what an observation sees.
func (s *scenario) snapshot() *cluster.Snapshot {
	out := &cluster.Snapshot{At: s.now, StatefulSet: s.set}
	for i, a := range s.pods {
		out.Cluster.Reachable = out.Cluster.Reachable || a.answers()
		out.Cluster.LeaderKnown = out.Cluster.LeaderKnown || a.answers() && s.leader != ""
		if a.name == s.leader {
			out.Cluster.Leader, out.Cluster.Term = uint64(i+1), 2
		}
	}
	for i, a := range s.pods {
		o := cluster.Ordinal{Name: a.name, Member: a.name, MemberID: uint64(i + 1), Role: v1alpha1.RoleUnknown, Class: s.class(a), Answers: a.answers(), Lag: a.lag, AppliedIndex: 10_000_000 - a.lag}
		if o.Answers {
			o.Versions.Etcd = s.version(a)
		}
		o.Serving = o.Answers && s.leader != "" && a.lag <= cluster.MaxLag
		if o.Class == v1alpha1.ClassUnready && a.state == stateReady && o.Serving {
			o.Class = v1alpha1.ClassParticipating
		}
		switch {
		case !o.Answers:
		case a.state == stateLearner:
			o.Role = v1alpha1.RoleLearner
		case a.name == s.leader:
			o.Role = v1alpha1.RoleLeader
		default:
			o.Role = v1alpha1.RoleFollower
		}
		if a.state != stateMissing {
			o.Pod = s.pod(a)
		}
		out.Ordinals = append(out.Ordinals, o)
		if a.state != stateLearner {
			out.Cluster.Voters = append(out.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: a.name, Ordinal: i, Serving: o.Serving})
		}
	}
	if !out.Cluster.Reachable {
		out.Cluster.Voters, out.Cluster.Leader = nil, 0
	}
	return out
}

func (s *scenario) class(a *actor) v1alpha1.PodClass {
	switch a.state {
	case stateMissing:
		return v1alpha1.ClassMissing
	case stateTerminating:
		return v1alpha1.ClassTerminating
	case stateDead:
		return v1alpha1.ClassDead
	case stateStarting:
		return v1alpha1.ClassStarting
	}
	return v1alpha1.ClassUnready
}

func (s *scenario) pod(a *actor) *cluster.Pod {
	// Without a leader, linearizable reads and so the probe fail.
	ready := a.state == stateFrozenReady || a.state == stateReady && s.leader != ""
	p := &cluster.Pod{
		UID: a.uid(), ResourceVersion: strconv.Itoa(a.version + 1), Revision: a.revision, Ready: ready, AllContainersReady: ready, BackupSidecarReady: true,
		Node: a.node, VolumeTrouble: a.volume, Trouble: a.trouble, Disrupted: a.disrupted, EtcdVersion: s.version(a), Probed: true, GracePeriod: 30 * time.Second,
	}
	if a.isUp() {
		p.EtcdStarted = a.started
	}
	if a.whole != nil {
		p.Updating = cluster.MarkOf(a.whole) != nil
	}
	if a.refusal != "" {
		p.Refusal = &cluster.Refusal{Reason: a.refusal}
	}
	return p
}
