// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is an Input in the making: three pods at revision old, and an update revision new.
func newWorld() *Input {
	in := &Input{Task: "task", SpecApplied: true, Snapshot: &cluster.Snapshot{StatefulSet: cluster.StatefulSet{Name: "m", Observed: true, OnDelete: true, UpdateRevision: "new"}}}
	in.pods("old", v1alpha1.ClassParticipating)
	return in
}

// pods makes all three pods the same.
func (in *Input) pods(revision string, class v1alpha1.PodClass) {
	in.Snapshot.Ordinals, in.Snapshot.Surplus = nil, nil
	for i := range 3 {
		o := cluster.Ordinal{Name: fmt.Sprintf("m-%d", i), Class: class}
		if class != v1alpha1.ClassMissing {
			o.Pod = &cluster.Pod{Revision: revision}
		}
		in.Snapshot.Ordinals = append(in.Snapshot.Ordinals, o)
	}
}

// hold scales to zero; the pods of the given names are left.
func (in *Input) hold(left ...string) {
	in.Snapshot.StatefulSet.HeldAtZeroBy = in.Task
	in.Snapshot.Ordinals, in.Snapshot.Surplus = nil, left
}

func stranded(in *Input) { in.Snapshot.Ordinals[1].Pod.VolumeTrouble = "its claim is being deleted" }

func TestHold(t *testing.T) {
	g := NewWithT(t)
	in := newWorld()
	stranded(in)
	in.Recorded = record(*in, decide(*in), epoch)
	g.Expect(in.Recorded.HeldBy.Guard).To(Equal(v1alpha1.GuardVolumeReachable))
	in.Recorded = record(*in, decide(*in), epoch.Add(time.Minute))
	g.Expect(in.Recorded.HeldBy.Pod).To(Equal("m-1"))
	g.Expect(in.Recorded.HeldBy.Since.Time).To(Equal(epoch))
	g.Expect(in.Recorded.BlockedBy).To(Equal([]v1alpha1.BlockedBy{{Guard: v1alpha1.GuardVolumeReachable, Pod: "m-1", Message: in.Recorded.HeldBy.Message}}))
	in.pods("old", v1alpha1.ClassParticipating)
	g.Expect(record(*in, decide(*in), epoch.Add(time.Hour)).HeldBy).To(BeNil())
}

// A task that goes back before it has stopped a pod says which guard it waits for, and that nothing was stopped. It has no target then, so that a
// newer revision, which may be what brings the volume back, does not end it.
func TestGoesBack(t *testing.T) {
	g := NewWithT(t)
	in := newWorld()
	in.Recorded = v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion, TargetRevision: "new"}
	stranded(in)
	v := verdict(*in, decide(*in), epoch)
	g.Expect(v.LastOperation).To(HaveValue(And(HaveField("Name", "StopAllPods"), HaveField("State", v1alpha1.OperationStateFailed))))
	g.Expect(v.Rollout).To(HaveValue(And(HaveField("Phase", v1alpha1.RecreatePhase("")), HaveField("HeldBy.Guard", v1alpha1.GuardVolumeReachable), HaveField("TargetRevision", ""))))

	in.Recorded = *v.Rollout
	in.Snapshot.StatefulSet.UpdateRevision = "newer"
	d := decide(*in)
	g.Expect(d.Outcome).To(Equal(tasks.Continue))
	g.Expect(d.Stranded).To(Equal("m-1"))
	in.Snapshot.Ordinals[1].Pod.VolumeTrouble = ""
	v = verdict(*in, decide(*in), epoch)
	g.Expect(v.Rollout).To(HaveValue(And(HaveField("Phase", v1alpha1.RecreateNeedsDeletion), HaveField("TargetRevision", "newer"))))
}

func TestPhases(t *testing.T) {
	const (
		needs    = v1alpha1.RecreateNeedsDeletion
		waiting  = v1alpha1.RecreateWaitingTermination
		ready    = v1alpha1.RecreateReadyForCreation
		complete = v1alpha1.RecreateComplete
	)
	for name, c := range map[string]struct {
		phase   v1alpha1.RecreatePhase
		world   func(*Input)
		outcome tasks.Outcome
		want    v1alpha1.RecreatePhase
		says    string
	}{
		"outdated pods":              {"", func(*Input) {}, tasks.Continue, needs, "are stopped, and then started at revision new"},
		"new pods, but stuck":        {"", func(in *Input) { in.pods("new", v1alpha1.ClassDead) }, tasks.Continue, needs, ""},
		"a spec that is not applied": {"", func(in *Input) { in.SpecApplied = false }, tasks.Continue, "", "waiting until the newest spec"},
		"and why it is not": {"", func(in *Input) { in.SpecApplied, in.SpecPending = false, "m-0 stays until task r is deleted." }, tasks.Continue, "",
			"applied to StatefulSet m: m-0 stays until task r is deleted."},
		"a revision that was asked for": {"", func(in *Input) { in.SpecApplied, in.Config.TargetRevision = false, "new" }, tasks.Continue, needs, ""},
		"nothing to do":                 {"", func(in *Input) { in.pods("new", v1alpha1.ClassParticipating) }, tasks.Done, complete, "nothing to do"},
		"hibernated":                    {"", func(in *Input) { in.Snapshot.Ordinals = nil }, tasks.Done, complete, "nothing to do: StatefulSet m has no replicas"},
		"a pod beyond the replicas": {"", func(in *Input) {
			in.pods("new", v1alpha1.ClassParticipating)
			in.Snapshot.Surplus = []string{"m-3"}
		}, tasks.Continue, needs, ""},

		"a claim is being deleted": {"", stranded, tasks.Continue, "", "the replacement of m-1 could not attach its volume: its claim is being deleted"},
		"and it does not matter": {"", func(in *Input) {
			stranded(in)
			in.Overridden = []v1alpha1.OverridableGuard{"VolumeReachable"}
		}, tasks.Continue, needs, ""},
		"before the pods are stopped":  {needs, stranded, tasks.Continue, "", "no pod is stopped: the replacement of m-1 could not attach its volume"},
		"while they are being stopped": {needs, func(in *Input) { in.hold("m-1") }, tasks.Continue, waiting, "waiting until these are gone"},
		"and it does not matter then": {needs, func(in *Input) {
			stranded(in)
			in.Overridden = []v1alpha1.OverridableGuard{"VolumeReachable"}
		}, tasks.Continue, needs, "waiting until StatefulSet m is scaled to zero"},

		"not scaled yet":           {needs, func(*Input) {}, tasks.Continue, needs, "waiting until StatefulSet m is scaled to zero"},
		"scaled":                   {needs, func(in *Input) { in.hold("m-1") }, tasks.Continue, waiting, "waiting until these are gone: m-1"},
		"scaled by another client": {needs, func(in *Input) { in.hold(); in.Snapshot.StatefulSet.HeldAtZeroBy = "other" }, tasks.Continue, needs, ""},

		"a pod is left":            {waiting, func(in *Input) { in.hold("m-0", "m-2") }, tasks.Continue, waiting, "m-0, m-2; if a node is gone"},
		"another client scaled up": {waiting, func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = in.Task }, tasks.Continue, waiting, "no longer scaled to zero"},
		"the last pod is gone":     {waiting, func(in *Input) { in.hold() }, tasks.Continue, ready, "the last pod of StatefulSet m is gone"},
		"the hold is not let go":   {ready, func(in *Input) { in.hold() }, tasks.Continue, ready, "scaled up again"},
		"pods are to be created":   {ready, func(in *Input) { in.pods("", v1alpha1.ClassMissing) }, tasks.Continue, ready, "m-2 is Missing"},
		"pods start":               {ready, func(in *Input) { in.pods("new", v1alpha1.ClassStarting) }, tasks.Continue, ready, "m-0 is Starting"},
		"all are back":             {ready, func(in *Input) { in.pods("new", v1alpha1.ClassParticipating) }, tasks.Done, complete, "was stopped and started at revision new"},
		"all are back, but as old": {ready, func(*Input) {}, tasks.Continue, ready, "m-0 is Participating"},
		"hibernated since":         {ready, func(in *Input) { in.Snapshot.Ordinals, in.Hibernates = nil, true }, tasks.Reject, ready, "all pods of StatefulSet m were stopped, and the Etcd was hibernated since"},
		"hibernated, and pods run": {ready, func(in *Input) { in.pods("new", v1alpha1.ClassUnready); in.Hibernates = true }, tasks.Reject, ready, "start at the newest template once it wakes up"},
		"hibernated at the end":    {ready, func(in *Input) { in.pods("new", v1alpha1.ClassParticipating); in.Hibernates = true }, tasks.Done, complete, "every member participates"},
		"woken up since":           {ready, func(in *Input) { in.Snapshot.Ordinals = nil }, tasks.Continue, ready, "waiting until StatefulSet m is scaled up again"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := newWorld()
			in.Recorded = v1alpha1.RolloutStatus{Phase: c.phase, TargetRevision: "new"}
			c.world(in)
			d := decide(*in)
			g.Expect(d.Outcome).To(Equal(c.outcome), d.Message)
			g.Expect(d.Phase).To(Equal(c.want), d.Message)
			g.Expect(d.Message).To(ContainSubstring(c.says))
			if d.Outcome == tasks.Reject {
				g.Expect(d.Code).To(Equal(v1alpha1.ErrHibernated))
			}
		})
	}
}

// A recreation that is to pause does so before it stops anything, and not while its members are stopped, or start.
func TestPausing(t *testing.T) {
	for name, c := range map[string]struct {
		phase  v1alpha1.RecreatePhase
		world  func(*Input)
		want   v1alpha1.RecreatePhase
		pauses bool
	}{
		"nothing is stopped":         {"", func(*Input) {}, "", true},
		"a claim is being deleted":   {"", stranded, "", true},
		"the spec is not applied":    {"", func(in *Input) { in.SpecApplied = false }, "", false},
		"nothing to do":              {"", func(in *Input) { in.pods("new", v1alpha1.ClassParticipating) }, v1alpha1.RecreateComplete, false},
		"it is being scaled to zero": {v1alpha1.RecreateNeedsDeletion, func(in *Input) { in.hold("m-1") }, v1alpha1.RecreateWaitingTermination, false},
		"the last pod is gone":       {v1alpha1.RecreateWaitingTermination, func(in *Input) { in.hold() }, v1alpha1.RecreateReadyForCreation, false},
		"pods start":                 {v1alpha1.RecreateReadyForCreation, func(in *Input) { in.pods("new", v1alpha1.ClassStarting) }, v1alpha1.RecreateReadyForCreation, false},
	} {
		g := NewWithT(t)
		in := newWorld()
		in.Recorded, in.Pausing = v1alpha1.RolloutStatus{Phase: c.phase, TargetRevision: "new"}, true
		c.world(in)
		d := decide(*in)
		g.Expect(d.Phase).To(Equal(c.want), name)
		g.Expect(d.Pauses).To(Equal(c.pauses), name)
		g.Expect(verdict(*in, d, epoch).Pauses).To(Equal(c.pauses), name)
	}
	// What it is to do comes with the task.
	for phase, pauses := range map[v1alpha1.RecreatePhase]bool{"": true, v1alpha1.RecreateNeedsDeletion: false} {
		g := NewWithT(t)
		task := recreation(phase)
		task.Pausing = true
		v, err := newHandler(seen(), seen()).Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Pauses).To(Equal(pauses), "%q", phase)
	}
}

func TestAnotherRevision(t *testing.T) {
	for _, phase := range []v1alpha1.RecreatePhase{"", v1alpha1.RecreateNeedsDeletion, v1alpha1.RecreateWaitingTermination, v1alpha1.RecreateReadyForCreation} {
		g := NewWithT(t)
		in := newWorld()
		in.Recorded = v1alpha1.RolloutStatus{Phase: phase, TargetRevision: "before"}
		d := decide(*in)
		g.Expect(d.Outcome).To(Equal(tasks.Reject), phase)
		g.Expect(d.Code).To(Equal(v1alpha1.ErrSuperseded))

		in.Snapshot.StatefulSet.Observed = false
		d = decide(*in)
		g.Expect(d.Outcome).To(Equal(tasks.Continue), "an update revision that may be late ends nothing")
		g.Expect(d.Phase).To(Equal(phase))
	}
}

func TestRecordAndVerdict(t *testing.T) {
	g := NewWithT(t)
	in := newWorld()
	v := verdict(*in, decide(*in), epoch)
	g.Expect(v.Event).To(Equal("RecreateStarted"))
	g.Expect(v.Reason).To(Equal(v1alpha1.ReasonRecreateInProgress))
	g.Expect(v.LastOperation.Name).To(Equal("StopAllPods"))
	g.Expect(v.Rollout.TargetRevision).To(Equal("new"))
	g.Expect(v.Rollout.Replicas).To(Equal(int32(3)))

	in.Recorded = *v.Rollout
	in.hold("m-0")
	v = verdict(*in, decide(*in), epoch.Add(time.Minute))
	g.Expect(v.Event).To(BeEmpty())
	g.Expect(v.Rollout.Replicas).To(Equal(int32(3)), "while they are stopped, it says how many there will be again")

	in.Recorded = *v.Rollout
	v = verdict(*in, decide(*in), epoch.Add(2*time.Minute))
	g.Expect(v.LastOperation).To(BeNil(), "nothing has happened")
	g.Expect(v.ProgressDeadline).To(Equal(progressDeadline))

	in.hold()
	v = verdict(*in, decide(*in), epoch.Add(12*time.Minute))
	g.Expect(v.LastOperation.Name).To(Equal("StartAllPods"))
	in.Recorded = *v.Rollout
	in.Snapshot.StatefulSet.HeldAtZeroBy = ""
	in.pods("new", v1alpha1.ClassParticipating)
	v = verdict(*in, decide(*in), epoch.Add(13*time.Minute))
	g.Expect(v.Event).To(Equal("RecreateComplete"))
	g.Expect(v.EndReason).To(Equal(v1alpha1.ReasonRecreateComplete))
	g.Expect(v.Progress).To(Equal("3/3"))
}

func TestConfig(t *testing.T) {
	g := NewWithT(t)
	g.Expect(taskconfig.Decode[rollout.RecreateConfig]("")).To(Equal(rollout.RecreateConfig{}))
	g.Expect(taskconfig.Decode[rollout.RecreateConfig]("targetRevision: m-1")).To(Equal(rollout.RecreateConfig{TargetRevision: "m-1"}))
	_, err := taskconfig.Decode[rollout.RecreateConfig]("restart: true")
	g.Expect(err).To(MatchError(ContainSubstring(`unknown field "restart"`)))
}

// A member that comes and goes makes no progress; more of them than ever in a phase do.
func TestProgress(t *testing.T) {
	g := NewWithT(t)
	in := newWorld()
	minute := 0
	// next lets a minute pass in which so many members participate, and returns at which one there was the last progress.
	next := func(phase v1alpha1.RecreatePhase, participating int) int {
		in.pods("new", v1alpha1.ClassMissing)
		for i := range participating {
			in.Snapshot.Ordinals[i].Class, in.Snapshot.Ordinals[i].Pod = v1alpha1.ClassParticipating, &cluster.Pod{Revision: "new"}
		}
		minute++
		in.Recorded = record(*in, Decision{Phase: phase}, epoch.Add(time.Duration(minute)*time.Minute))
		return int(in.Recorded.LastProgressTime.Sub(epoch) / time.Minute)
	}
	g.Expect(next(v1alpha1.RecreateWaitingTermination, 3)).To(Equal(1), "it begins")
	g.Expect(next(v1alpha1.RecreateReadyForCreation, 0)).To(Equal(2), "another phase")
	g.Expect(next(v1alpha1.RecreateReadyForCreation, 1)).To(Equal(3), "one is back")
	for range 3 {
		g.Expect(next(v1alpha1.RecreateReadyForCreation, 0)).To(Equal(3), "it stops")
		g.Expect(next(v1alpha1.RecreateReadyForCreation, 1)).To(Equal(3), "and is back")
	}
	g.Expect(next(v1alpha1.RecreateReadyForCreation, 2)).To(Equal(10), "two are back")
}
