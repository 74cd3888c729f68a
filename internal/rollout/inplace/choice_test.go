// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func observed(at time.Time, class v1alpha1.PodClass) *cluster.Snapshot {
	return &cluster.Snapshot{At: at, Ordinals: []cluster.Ordinal{{Name: "m-0", Class: class, Pod: &cluster.Pod{UID: "u", ResourceVersion: "1", Updating: true}}}}
}

func assessed(a Assessment) map[types.UID]Assessment {
	a.ResourceVersion = "1"
	return map[types.UID]Assessment{"u": a}
}

const maxGap = 10 * time.Second

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const participating, unready, dead = v1alpha1.ClassParticipating, v1alpha1.ClassUnready, v1alpha1.ClassDead

func TestChoice(t *testing.T) {
	mark, resize := Write{Kind: PatchMetadata}, Write{Kind: ResizePod}
	image, final := Write{Kind: UpdateContainer, Disrupts: true}, Write{Kind: PatchMetadata, Final: true}
	for name, c := range map[string]struct {
		Assessment
		class v1alpha1.PodClass
		want  Choice
	}{
		"the next write":                   {Assessment{Writes: []Write{resize, final}}, participating, Choice{Write: &resize, Begun: true}},
		"a mark before what disrupts":      {Assessment{Writes: []Write{mark, image, final}}, participating, Choice{Write: &mark, Begun: true, Disrupts: true}},
		"a new pod":                        {Assessment{Replace: "why"}, participating, Choice{Replace: "why"}},
		"it does not participate":          {Assessment{Writes: []Write{resize, final}}, unready, Choice{Replace: "it does not participate"}},
		"it is what a new one would be":    {Assessment{Writes: []Write{final}}, dead, Choice{Wait: "m-0 has been updated in place and does not participate", Begun: true}},
		"the kubelet, which restarts etcd": {Assessment{Writes: []Write{image, final}, Pending: "kubelet"}, dead, Choice{Wait: "m-0 is being updated in place: kubelet", Begun: true, Disrupts: true}},
		"etcd was restarted":               {Assessment{Writes: []Write{mark, final}, Restarted: true}, dead, Choice{Wait: "m-0 has been updated in place and does not participate", Begun: true}},
		"the agent does not come back":     {Assessment{Writes: []Write{final}, Pending: "agent"}, participating, Choice{Wait: "m-0 is being updated in place: agent", Begun: true}},
		"impossible at once":               {Assessment{Writes: []Write{final}, Pending: "infeasible", GiveUp: &mark}, participating, Choice{Write: &mark, Begun: true}},
		"impossible, and it is dead":       {Assessment{Writes: []Write{final}, Pending: "infeasible", GiveUp: &mark}, dead, Choice{Write: &mark, Begun: true}},
		"a revert, and then a new pod":     {Assessment{Writes: []Write{resize}, Replace: "why"}, participating, Choice{Write: &resize, Begun: true}},
		"no revert of what is dead":        {Assessment{Writes: []Write{resize}, Replace: "why"}, dead, Choice{Replace: "why"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := observed(noon, c.class)
			g.Expect(Updates{}.Next(s, assessed(c.Assessment), maxGap).Of(&s.Ordinals[0], noon)).To(Equal(c.want))
		})
	}
}

// What the node of one pod can never do is not tried on others, for as long as the target is the same, and also once that pod is gone.
func TestInfeasibleResizeIsNotTriedAgain(t *testing.T) {
	g := NewWithT(t)
	look := func(target string, pods ...Assessment) (*cluster.Snapshot, map[types.UID]Assessment) {
		s, all := &cluster.Snapshot{At: noon, StatefulSet: cluster.StatefulSet{UpdateRevision: target}}, map[types.UID]Assessment{}
		for i, a := range pods {
			uid := types.UID(fmt.Sprint(i))
			s.Ordinals = append(s.Ordinals, cluster.Ordinal{Name: "m-" + string(uid), Class: participating, Pod: &cluster.Pod{UID: uid}})
			all[uid] = a
		}
		return s, all
	}
	mark, resize, image, final := Write{Kind: PatchMetadata}, Write{Kind: ResizePod, Disrupts: true}, Write{Kind: UpdateContainer}, Write{Kind: PatchMetadata, Final: true}
	failed := Assessment{Replace: unresizable + infeasible + ": no memory", Infeasible: true}
	const why = "the same resize failed on m-0: PodResizePending: Infeasible: no memory"
	s, all := look("new", failed, Assessment{Writes: []Write{mark, resize, final}}, Assessment{Writes: []Write{mark, image, final}}, Assessment{Writes: []Write{resize, final}})
	s.Ordinals[3].Pod.Updating = true
	known := Updates{}.Next(s, all, maxGap)
	g.Expect(known.Of(&s.Ordinals[1], noon)).To(Equal(Choice{Replace: why}))
	g.Expect(known.Stage(&s.Ordinals[1], noon)).To(Equal(3))
	g.Expect(known.Of(&s.Ordinals[2], noon)).To(Equal(Choice{Write: &mark}), "it is not resized")
	g.Expect(known.Of(&s.Ordinals[3], noon).Write).To(HaveValue(Equal(resize)), "it is on its way")

	s, all = look("new", Assessment{Writes: []Write{mark, resize, final}})
	s.At = noon.Add(time.Hour)
	known = known.Next(s, all, maxGap)
	g.Expect(known.Of(&s.Ordinals[0], s.At)).To(Equal(Choice{Replace: why}), "the pod is gone")
	g.Expect(known.Foresee(&s.Ordinals[0], s.StatefulSet, s.At).Of(&s.Ordinals[0], s.At).Replace).To(Equal(why))

	s, all = look("newer", Assessment{Writes: []Write{mark, resize, final}})
	g.Expect(known.Next(s, all, maxGap).Of(&s.Ordinals[0], noon).Write).To(HaveValue(Equal(mark)), "the template has changed")
}

// Without the policy, the choice is empty: every pod is replaced. With it, a pod that nothing is known of is left alone.
func TestNothingIsKnown(t *testing.T) {
	g := NewWithT(t)
	s := observed(noon, dead)
	g.Expect(Updates{}.Of(&s.Ordinals[0], noon)).To(Equal(Choice{}))
	g.Expect(Updates{}.Next(s, nil, maxGap).Of(&s.Ordinals[0], noon).Wait).NotTo(BeEmpty())
	late := assessed(Assessment{Replace: "why"})
	s.Ordinals[0].Pod.ResourceVersion = "2"
	g.Expect(Updates{}.Next(s, late, maxGap).Of(&s.Ordinals[0], noon).Wait).NotTo(BeEmpty(), "the pod is another one than was assessed")
}

// A time that goes back resets what has to last of an update in place, too.
func TestATimeThatGoesBackResetsUpdates(t *testing.T) {
	g := NewWithT(t)
	settle := assessed(Assessment{Writes: []Write{{Final: true}}, Settle: 30 * time.Second, AtRisk: true, Phase: "a"})
	back := observed(noon.Add(4*time.Second), participating)
	back.Ordinals[0].Serving = true
	of := Updates{}.Next(observed(noon, participating), settle, maxGap).Next(observed(noon.Add(5*time.Second), participating), settle, maxGap).Next(back, settle, maxGap)
	g.Expect(of.Of(&back.Ordinals[0], noon.Add(33*time.Second)).Write).To(BeNil(), "it has participated for 29 s")
	g.Expect(of.AtRiskLately(&back.Ordinals[0], noon.Add(33*time.Second))).To(BeTrue())
	g.Expect(of.Of(&back.Ordinals[0], noon.Add(34*time.Second)).Write).NotTo(BeNil())
	g.Expect(of.AtRiskLately(&back.Ordinals[0], noon.Add(34*time.Second))).To(BeFalse())
}

// What has to last counts while it stays the same, in every observation, and any gap begins again.
func TestWhatHasToLast(t *testing.T) {
	g := NewWithT(t)
	final, give := Write{Final: true}, Write{What: "give up"}
	settle := Assessment{Writes: []Write{final}, Settle: 30 * time.Second, Phase: "a"}
	deferred := Assessment{Writes: []Write{final}, Pending: "deferred", GiveUp: &give, GiveUpAfter: 30 * time.Second, Phase: "a"}
	restarted := settle
	restarted.Phase = "b"
	run := func(gap time.Duration, upTo time.Duration, class func(time.Duration) v1alpha1.PodClass, a func(time.Duration) Assessment) Choice {
		state := Updates{}
		for at := time.Duration(0); ; at += gap {
			s := observed(noon.Add(at), class(at))
			state = state.Next(s, assessed(a(at)), maxGap)
			if at >= upTo {
				return state.Of(&s.Ordinals[0], s.At)
			}
		}
	}
	always := func(time.Duration) v1alpha1.PodClass { return participating }
	same := func(a Assessment) func(time.Duration) Assessment {
		return func(time.Duration) Assessment { return a }
	}
	g.Expect(run(time.Second, 29*time.Second, always, same(settle)).Write).To(BeNil())
	g.Expect(run(time.Second, 30*time.Second, always, same(settle)).Write).To(Equal(&final))
	g.Expect(run(11*time.Second, 99*time.Second, always, same(settle)).Write).To(BeNil(), "gaps")
	g.Expect(run(time.Second, 35*time.Second, always, func(at time.Duration) Assessment {
		if at < 10*time.Second {
			return settle
		}
		return restarted
	}).Write).To(BeNil(), "a restart")
	g.Expect(run(time.Second, 35*time.Second, func(at time.Duration) v1alpha1.PodClass {
		if at == 10*time.Second {
			return unready
		}
		return participating
	}, same(settle)).Write).To(BeNil(), "it did not participate all the time")
	g.Expect(run(time.Second, 29*time.Second, always, same(deferred)).Write).To(BeNil())
	g.Expect(run(time.Second, 30*time.Second, always, same(deferred)).Write).To(Equal(&give))
}

func TestIsOnItsWay(t *testing.T) {
	write := &Write{}
	for _, c := range []struct {
		Choice
		inPlace, onItsWay bool
	}{
		{Choice{}, false, false},
		{Choice{Begun: true}, false, false},
		{Choice{Replace: "why", Begun: true}, false, false},
		{Choice{Write: write}, true, false},
		{Choice{Wait: "why"}, true, false},
		{Choice{Write: write, Begun: true}, true, true},
		{Choice{Write: write, Begun: true, Disrupts: true}, true, false},
		{Choice{Wait: "why", Begun: true, Disrupts: true}, true, true},
	} {
		if c.InPlace() != c.inPlace || c.IsOnItsWay() != c.onItsWay {
			t.Errorf("%+v: in place %t, on its way %t", c.Choice, c.InPlace(), c.IsOnItsWay())
		}
	}
}

// stateOf is the state of one pod, and its ordinal.
func stateOf(begun bool, a Assessment, change ...func(*cluster.Snapshot)) (Updates, *cluster.Ordinal) {
	s := observed(noon, participating)
	s.Ordinals[0].Pod.Updating = begun
	for _, c := range change {
		c(s)
	}
	return Updates{}.Next(s, assessed(a), maxGap), &s.Ordinals[0]
}

func TestStage(t *testing.T) {
	resize, image, final := Write{Kind: ResizePod}, Write{Kind: UpdateContainer, Disrupts: true}, Write{Final: true}
	down := func(s *cluster.Snapshot) { s.Ordinals[0].Class = dead }
	for name, c := range map[string]struct {
		begun bool
		Assessment
		change func(*cluster.Snapshot)
		want   int
	}{
		"replaced, and does not participate": {false, Assessment{Replace: "why"}, down, 0},
		"on its way":                         {true, Assessment{Writes: []Write{final}}, nil, 1},
		"disturbs no member":                 {false, Assessment{Writes: []Write{resize, final}}, nil, 2},
		"disrupts":                           {false, Assessment{Writes: []Write{image, final}}, nil, 3},
		"replaced":                           {false, Assessment{Replace: "why"}, nil, 3},
		"waits, and has not begun":           {false, Assessment{Writes: []Write{resize}, Pending: "kubelet"}, nil, 3},
	} {
		change := c.change
		if change == nil {
			change = func(*cluster.Snapshot) {}
		}
		s, o := stateOf(c.begun, c.Assessment, change)
		if got := s.Stage(o, noon); got != c.want {
			t.Errorf("%s: stage %d, not %d", name, got, c.want)
		}
	}
}

// Where every pod is replaced, one that is marked goes before others: its etcd may be about to restart.
func TestStageWithoutThePolicy(t *testing.T) {
	for updating, want := range map[bool]int{true: 1, false: 3} {
		s := observed(noon, participating)
		s.Ordinals[0].Pod.Updating = updating
		if got := (Updates{}).Stage(&s.Ordinals[0], noon); got != want {
			t.Errorf("updating %t: stage %d, not %d", updating, got, want)
		}
	}
}

// A member is at risk as long as it serves: once it has stopped, that shows.
func TestOnlyMembersThatServeAreAtRisk(t *testing.T) {
	for _, c := range []struct{ risky, serving, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		s, o := stateOf(true, Assessment{Writes: []Write{{Final: true}}, Pending: "kubelet", AtRisk: c.risky})
		o.Serving = c.serving
		if got := s.AtRisk(o); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if s.Foresee(o, updateTarget, noon).AtRisk(o) {
			t.Errorf("%+v: at risk once what is waited for has come to pass", c)
		}
	}
	if (Updates{}).AtRisk(&cluster.Ordinal{}) {
		t.Error("an ordinal without a pod is at risk")
	}
}

// How long it has been at risk does not depend on its class, and begins again after a gap.
func TestAtRiskLately(t *testing.T) {
	g := NewWithT(t)
	at := func(s Updates, after time.Duration, class v1alpha1.PodClass, risky bool) (Updates, bool) {
		snapshot := observed(noon.Add(after), class)
		snapshot.Ordinals[0].Serving = true
		s = s.Next(snapshot, assessed(Assessment{Writes: []Write{{Final: true}}, AtRisk: risky}), maxGap)
		return s, s.AtRiskLately(&snapshot.Ordinals[0], snapshot.At)
	}
	s, lately := at(Updates{}, 0, participating, false)
	g.Expect(lately).To(BeFalse())
	for second := 1; second <= 30; second++ {
		class := participating
		if second%2 == 0 {
			class = unready
		}
		s, lately = at(s, time.Duration(second)*time.Second, class, true)
		g.Expect(lately).To(BeTrue(), "%d s", second)
	}
	s, lately = at(s, 31*time.Second, participating, true)
	g.Expect(lately).To(BeFalse())
	g.Expect(s.AtRisk(&cluster.Ordinal{Serving: true, Pod: &cluster.Pod{UID: "u"}})).To(BeTrue())
	_, lately = at(s, 42*time.Second, participating, true)
	g.Expect(lately).To(BeTrue(), "it was not observed for 11 s")
}

// After lowered resources, a member has to participate for a while without a restart.
func TestSettle(t *testing.T) {
	g := NewWithT(t)
	a := Assessment{Writes: []Write{{Final: true}}, Settle: 30 * time.Second, Phase: "settle"}
	s, o := stateOf(true, a)
	g.Expect(s.Of(o, noon).Wait).To(ContainSubstring("must participate for 30s without a container restart"))
	a.Settle = 0
	s, o = stateOf(true, a)
	g.Expect(s.Of(o, noon).Write).NotTo(BeNil())
}

// target is what the StatefulSet of a plan brings its pods to.
var updateTarget = cluster.StatefulSet{UpdateRevision: "target", EtcdVersion: "3.7.3"}

func TestUpdatesAreForeseen(t *testing.T) {
	g := NewWithT(t)
	resize, final := Write{Kind: ResizePod}, Write{Kind: PatchMetadata, Final: true}
	s, o := stateOf(false, Assessment{Writes: []Write{resize, final}, Pending: "kubelet", Settle: time.Second})
	o.Pod.Updating, o.Versions.Etcd = true, "3.6.11"
	waited := s.Foresee(o, updateTarget, noon)
	g.Expect(s.Of(o, noon).Wait).NotTo(BeEmpty(), "what was before is unchanged")
	g.Expect(waited.Enabled).To(Equal(s.Enabled))
	g.Expect(waited.Of(o, noon).Write).To(HaveValue(Equal(resize)))

	begun := waited.Foresee(o, updateTarget, noon)
	g.Expect(o.Pod.ResourceVersion).To(Equal("1+"))
	g.Expect(o.Pod.Updating).To(BeTrue())
	g.Expect(o.Pod.Revision).NotTo(Equal("target"))
	g.Expect(o.Versions.Etcd).To(Equal("3.6.11"))
	g.Expect(begun.pods[o.Pod.UID].ResourceVersion).To(Equal("1+"), "it is compared with the pod as it is then")
	g.Expect(begun.Of(o, noon).Write).To(HaveValue(Equal(final)))

	done := begun.Foresee(o, updateTarget, noon)
	g.Expect(o.Pod.Updating).To(BeFalse())
	g.Expect(o.Pod.Revision).To(Equal("target"))
	g.Expect(o.Versions.Etcd).To(Equal("3.7.3"))
	g.Expect(done.pods[types.UID("u")].Writes).To(BeEmpty())
}

// An image whose tag is no version says nothing of the member.
func TestUpdatesAreForeseenWithoutAVersion(t *testing.T) {
	g := NewWithT(t)
	s, o := stateOf(false, Assessment{Writes: []Write{{Kind: PatchMetadata, Final: true}}})
	o.Versions.Etcd = "3.6.11"
	s.Foresee(o, cluster.StatefulSet{UpdateRevision: "target"}, noon)
	g.Expect(o.Pod.Revision).To(Equal("target"))
	g.Expect(o.Versions.Etcd).To(Equal("3.6.11"))
}

// What will be given up is said while it is waited for.
func TestWaitingUntilItIsGivenUp(t *testing.T) {
	g := NewWithT(t)
	a := Assessment{Writes: []Write{{Final: true}}, Pending: "the kubelet"}
	s, o := stateOf(true, a)
	g.Expect(s.Of(o, noon).Wait).To(Equal("m-0 is being updated in place: the kubelet"))
	a.GiveUp, a.GiveUpAfter = &Write{Kind: PatchMetadata}, 5*time.Minute
	s, o = stateOf(true, a)
	g.Expect(s.Of(o, noon).Wait).To(Equal("m-0 is being updated in place: the kubelet; after 5m0s the update is reverted and the pod is replaced"))
}

// A plan gives up what has been tried for too long, also where nothing else could be written.
func TestGivingUpIsForeseen(t *testing.T) {
	g := NewWithT(t)
	s, o := stateOf(true, Assessment{Replace: "it was tried for too long", GiveUp: &Write{Kind: PatchMetadata}})
	given := s.Foresee(o, updateTarget, noon)
	g.Expect(given.Of(o, noon).Replace).To(Equal("it was tried for too long"))
}

// A phase lasts from one observation to the next, and a gap resets it.
func TestGapsResetPhases(t *testing.T) {
	g := NewWithT(t)
	a := Assessment{Writes: []Write{{Final: true}}, Settle: maxGap}
	for gap, settled := range map[time.Duration]bool{maxGap: true, maxGap + 1: false} {
		s := Updates{}.Next(observed(noon, participating), assessed(a), maxGap).Next(observed(noon.Add(gap), participating), assessed(a), maxGap)
		o := observed(noon.Add(gap), participating).Ordinals[0]
		g.Expect(s.Of(&o, noon.Add(gap)).Write != nil).To(Equal(settled), gap.String())
	}
}
