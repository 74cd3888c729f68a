// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/plan"
)

// stepIndent is where the reason of a step starts.
const stepIndent = 6

// lines returns the plan as text in a width; 0 is any width.
func (p *result) lines(width int) []string {
	wrap := func(s string) []string { return text.Wrap(s, 0, width) }
	var lines []string
	for _, s := range p.heading() {
		lines = append(lines, wrap(s)...)
	}
	lines = append(lines, "", "NOW")
	lines = append(lines, p.table().Lines(width)...)
	lines = append(lines, wrap(serving(p.now()))...)
	if len(p.holding) == 0 {
		lines = append(lines, "No guard blocks it.")
	}
	for _, h := range p.holding {
		lines = append(lines, text.Wrap(fmt.Sprintf("Blocked by %s: %s", h.Guard, h.Message), 2, width)...)
	}
	lines = append(lines, "", "PLAN")
	lines = append(lines, p.steps(width)...)
	for _, s := range p.ending() {
		lines = append(lines, wrap(s)...)
	}
	return lines
}

// now returns the state that the plan starts with.
func (p *result) now() *cluster.Snapshot {
	switch {
	case len(p.Entries) > 0:
		return p.Entries[0].Before
	case p.unreachable != "" && p.etcd.Source() == nil:
		return p.snapshot.ByReadiness()
	}
	return p.snapshot
}

// heading returns what is planned, and what the plan is based on.
func (p *result) heading() []string {
	revision := p.snapshot.StatefulSet.UpdateRevision
	what := fmt.Sprintf("Rollout of Etcd %s/%s to revision %s.", p.etcd.Namespace, p.etcd.Name, revision)
	if p.restart {
		what = fmt.Sprintf("Restart of Etcd %s/%s, to revision %s.", p.etcd.Namespace, p.etcd.Name, revision)
	}
	say := []string{what}
	switch {
	case p.task == nil:
		say = append(say, "No task does this now: this is the plan of a new one.")
	case p.task.Spec.Suspend:
		say = append(say, fmt.Sprintf("Task %s does this; it is suspended: continue it with \"kubectl etcdtask resume %s\".", p.task.Name, p.task.Name))
	default:
		say = append(say, fmt.Sprintf("Task %s does this: %s.", p.task.Name, text.State(p.task)))
	}
	say = append(say, p.waiting...)
	if p.members != nil {
		say = append(say, p.changing())
	}
	say = append(say, p.basis())
	if p.surroundings != "" {
		say = append(say, fmt.Sprintf("Nodes and volumes could not be read, so the guards %s and %s are not checked: %s.", v1alpha1.GuardVolumeReachable, v1alpha1.GuardNodesStable, p.surroundings))
	}
	if p.revisions != "" {
		say = append(say, fmt.Sprintf("ControllerRevisions could not be read, so the plan does not know which pods are updated in place, and replaces all: %s.", p.revisions))
	}
	if p.etcd.Generation != p.etcd.Status.ObservedGeneration {
		say = append(say, "The newest spec of the Etcd has not been applied to its StatefulSet yet: the plan is for the current StatefulSet.")
	}
	set := p.snapshot.StatefulSet
	switch {
	case p.otherStrategy && set.Objection != "" && set.Objection != replacer.NotOnDelete(set.Name):
		say = append(say, fmt.Sprintf("A task would be rejected: %s. The plan assumes that the operator replaces the pods.", set.Objection))
	case p.otherStrategy:
		say = append(say, fmt.Sprintf("The update strategy of StatefulSet %s is not OnDelete: the StatefulSet controller replaces pods, and a task would be rejected with %s. "+
			"The plan assumes that the feature gate QuorumAwareUpdatesWithOnDelete is on.", set.Name, v1alpha1.ErrStrategy))
	}
	return say
}

// basis returns where roles and health come from.
func (p *result) basis() string {
	switch {
	case p.unreachable == "":
		return "Roles and voters come from etcd, asked through a port-forward."
	case p.etcd.Source() != nil:
		return fmt.Sprintf("Roles and voters are not known, and a rollout does not go by readiness probes while members of another cluster may vote: %s.", p.unreachable)
	}
	return fmt.Sprintf("Roles come from leases, and health from readiness probes: %s.", p.unreachable)
}

// changing returns what the task does that changes the members, which may run beside a rollout.
func (p *result) changing() string {
	say := fmt.Sprintf("Task %s changes the members", p.members.Name)
	if m := p.members.Status.Membership; m != nil {
		say += fmt.Sprintf(", which are %d voters and are to be %d", m.Voters, m.Size)
	}
	held, _ := p.members.Status.Held()
	switch doing := text.Doing(p.members); {
	case held != nil:
		return say + fmt.Sprintf("; it is blocked by %s: %s.", held.Guard, held.Message)
	case doing != "":
		return say + "; now: " + doing + "."
	}
	return say + "."
}

func (p *result) table() *text.Table {
	fates := p.fates()
	t := &text.Table{Columns: []text.Column{{Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "REVISION", Rank: 1}, {Name: "REPLACED"}}}
	for _, o := range p.now().Ordinals {
		revision := "-"
		if o.Pod != nil {
			revision = o.Pod.Revision
		}
		t.Add(o.Name, string(o.Class), role(o), revision, cmp.Or(fates[o.Name], "no"))
	}
	return t
}

// fates returns whether the plan replaces a pod ("yes") or changes it in place, by the pod's name.
func (p *result) fates() map[string]string {
	fates := map[string]string{}
	for _, e := range p.Entries {
		if e.Step != nil && e.Step.Write != nil {
			pod := e.Before.Ordinals[e.Step.Ordinals[0]].Name
			fates[pod] = cmp.Or(fates[pod], "in place")
		}
		if e.Meanwhile != nil && e.Step.IsRemoval() {
			for _, i := range e.Step.Ordinals {
				fates[e.Before.Ordinals[i].Name] = "yes"
			}
		}
	}
	return fates
}

func role(o cluster.Ordinal) string {
	if o.Role == v1alpha1.RoleUnknown {
		return "-"
	}
	return string(cmp.Or(o.Role, "-"))
}

func serving(s *cluster.Snapshot) string {
	voters := len(s.Cluster.Voters)
	if voters == 0 {
		return "No voter reports who the voters are: quorum is lost, or not reachable from here."
	}
	say := fmt.Sprintf("%d of %d voters serve; a quorum is %d.", s.ServingVoters(), voters, s.Quorum())
	if !s.HasQuorum() {
		say += " There is no quorum."
	}
	return say
}

// steps returns the steps, each with its reason below it.
func (p *result) steps(width int) []string {
	t := &text.Table{Columns: []text.Column{{Name: "STEP"}, {Name: "ACTION"}, {Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "MEANWHILE", Rank: 1}}}
	var reasons []string
	number := 0
	for _, e := range p.Entries {
		if e.Hold() != nil {
			class, role := classAndRole(e.Before, e.Hold().Pod)
			t.Add("-", "wait", text.OrDash(e.Hold().Pod), class, role, "-")
			reasons = append(reasons, fmt.Sprintf("%s: %s", e.Hold().Guard, e.Hold().Message))
			continue
		}
		number++
		if e.Step.Action == rollout.TakeSnapshot {
			t.Add(fmt.Sprint(number), string(e.Step.Action), "-", "-", "-", "-")
			reasons = append(reasons, e.Step.Reason)
			continue
		}
		for i, ordinal := range e.Step.Ordinals {
			o := e.Before.Ordinals[ordinal]
			t.Add(fmt.Sprint(number), string(e.Step.Action), o.Name, string(o.Class), role(o), meanwhile(e))
			reason := ""
			if i == len(e.Step.Ordinals)-1 {
				reason = e.Step.Reason
			}
			reasons = append(reasons, reason)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	rows := t.Lines(width)
	lines := rows[:1:1]
	for i, row := range rows[1:] {
		lines = append(lines, row)
		if reasons[i] != "" {
			lines = append(lines, strings.Repeat(" ", stepIndent)+strings.Join(text.Wrap(reasons[i], stepIndent, width), "\n"))
		}
	}
	return lines
}

func classAndRole(s *cluster.Snapshot, pod string) (string, string) {
	for _, o := range s.Ordinals {
		if o.Name == pod {
			return string(o.Class), role(o)
		}
	}
	return "-", "-"
}

func meanwhile(e plan.Entry) string {
	if e.Meanwhile == nil {
		return "-"
	}
	if !e.Meanwhile.HasQuorum() {
		return "no quorum"
	}
	return fmt.Sprintf("%d of %d serve", e.Meanwhile.ServingVoters(), len(e.Meanwhile.Cluster.Voters))
}

// ending returns how the plan ends, and what it assumes.
func (p *result) ending() []string {
	revision := p.snapshot.StatefulSet.UpdateRevision
	var say []string
	switch {
	case p.End == rollout.Finished && len(p.Entries) == 0:
		return []string{fmt.Sprintf("Nothing to do: every pod is at revision %s, and every member participates.", revision)}
	case p.End == rollout.Finished:
		say = append(say, fmt.Sprintf("Then every pod is at revision %s, and every member participates, if each new pod becomes ready.", revision))
	case p.End == rollout.Superseded:
		return append(say, fmt.Sprintf("The task is not for revision %s: it ends as superseded, and the newest revision has a task of its own.", revision))
	default:
		say = append(say, "Nothing can be predicted after this.")
	}
	say = append(say, p.quorumLosses()...)
	if p.Elections {
		say = append(say, "The winner of an election cannot be predicted: the roles after it are assumed.")
	}
	return say
}

// quorumLosses returns when there is no quorum.
func (p *result) quorumLosses() []string {
	var say []string
	number := 0
	for i, e := range p.Entries {
		if e.Step != nil {
			number++
		}
		switch {
		case e.Meanwhile != nil && e.Before.HasQuorum() && !e.Meanwhile.HasQuorum():
			say = append(say, fmt.Sprintf("During step %d there is no quorum: writes stop until %s is back.", number, e.Before.Ordinals[e.Step.Ordinals[0]].Name))
		case !e.Before.HasQuorum() && (i+1 == len(p.Entries) || p.Entries[i+1].Before.HasQuorum()):
			say = append(say, fmt.Sprintf("There is no quorum now; by this plan it is restored after %s.", after(e, number)))
		}
	}
	if len(say) == 0 && len(p.Entries) > 0 && p.Entries[0].Before.HasQuorum() {
		return []string{"Quorum is kept throughout."}
	}
	return say
}

func after(e plan.Entry, number int) string {
	if e.Hold() != nil {
		return "waiting for " + string(e.Hold().Guard)
	}
	return fmt.Sprintf("step %d", number)
}
