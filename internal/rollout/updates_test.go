// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func observed(at time.Time, class v1alpha1.PodClass) *cluster.Snapshot {
	return &cluster.Snapshot{At: at, Ordinals: []cluster.Ordinal{{Name: "m-0", Class: class, Pod: &cluster.Pod{UID: "u", ResourceVersion: "1", Updating: true}}}}
}

func assessed(a inplace.Assessment) map[types.UID]inplace.Assessment {
	a.ResourceVersion = "1"
	return map[types.UID]inplace.Assessment{"u": a}
}

const participating, unready, dead = v1alpha1.ClassParticipating, v1alpha1.ClassUnready, v1alpha1.ClassDead

func TestChoice(t *testing.T) {
	mark, resize := inplace.Write{Kind: inplace.PatchMetadata}, inplace.Write{Kind: inplace.ResizePod}
	image, final := inplace.Write{Kind: inplace.UpdateContainer, Disrupts: true}, inplace.Write{Kind: inplace.PatchMetadata, Final: true}
	for name, c := range map[string]struct {
		inplace.Assessment
		class v1alpha1.PodClass
		want  UpdateChoice
	}{
		"the next write":                   {inplace.Assessment{Writes: []inplace.Write{resize, final}}, participating, UpdateChoice{Write: &resize, Begun: true}},
		"a mark before what disrupts":      {inplace.Assessment{Writes: []inplace.Write{mark, image, final}}, participating, UpdateChoice{Write: &mark, Begun: true, Disrupts: true}},
		"a new pod":                        {inplace.Assessment{Replace: "why"}, participating, UpdateChoice{Replace: "why"}},
		"it does not participate":          {inplace.Assessment{Writes: []inplace.Write{resize, final}}, unready, UpdateChoice{Replace: "it does not participate"}},
		"it is what a new one would be":    {inplace.Assessment{Writes: []inplace.Write{final}}, dead, UpdateChoice{Wait: "m-0 has been updated in place and does not participate", Begun: true}},
		"the kubelet, which restarts etcd": {inplace.Assessment{Writes: []inplace.Write{image, final}, Pending: "kubelet"}, dead, UpdateChoice{Wait: "m-0 is being updated in place: kubelet", Begun: true, Disrupts: true}},
		"etcd was restarted":               {inplace.Assessment{Writes: []inplace.Write{mark, final}, Restarted: true}, dead, UpdateChoice{Wait: "m-0 has been updated in place and does not participate", Begun: true}},
		"the agent does not come back":     {inplace.Assessment{Writes: []inplace.Write{final}, Pending: "agent"}, participating, UpdateChoice{Wait: "m-0 is being updated in place: agent", Begun: true}},
		"impossible at once":               {inplace.Assessment{Writes: []inplace.Write{final}, Pending: "infeasible", GiveUp: &mark}, participating, UpdateChoice{Write: &mark, Begun: true}},
		"impossible, and it is dead":       {inplace.Assessment{Writes: []inplace.Write{final}, Pending: "infeasible", GiveUp: &mark}, dead, UpdateChoice{Write: &mark, Begun: true}},
		"a revert, and then a new pod":     {inplace.Assessment{Writes: []inplace.Write{resize}, Replace: "why"}, participating, UpdateChoice{Write: &resize, Begun: true}},
		"no revert of what is dead":        {inplace.Assessment{Writes: []inplace.Write{resize}, Replace: "why"}, dead, UpdateChoice{Replace: "why"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := observed(noon, c.class)
			g.Expect(Updates{}.Next(s, assessed(c.Assessment)).Of(&s.Ordinals[0], noon)).To(Equal(c.want))
		})
	}
}

// Without the policy, the choice is empty: every pod is replaced. With it, a pod that nothing is known of is left alone.
func TestNothingIsKnown(t *testing.T) {
	g := NewWithT(t)
	s := observed(noon, dead)
	g.Expect(Updates{}.Of(&s.Ordinals[0], noon)).To(Equal(UpdateChoice{}))
	g.Expect(Updates{}.Next(s, nil).Of(&s.Ordinals[0], noon).Wait).NotTo(BeEmpty())
	late := assessed(inplace.Assessment{Replace: "why"})
	s.Ordinals[0].Pod.ResourceVersion = "2"
	g.Expect(Updates{}.Next(s, late).Of(&s.Ordinals[0], noon).Wait).NotTo(BeEmpty(), "the pod is another one than was assessed")
}

// What has to last counts while it stays the same, in every observation, and any gap begins again.
func TestWhatHasToLast(t *testing.T) {
	g := NewWithT(t)
	final, give := inplace.Write{Final: true}, inplace.Write{What: "give up"}
	settle := inplace.Assessment{Writes: []inplace.Write{final}, Settle: 30 * time.Second, Phase: "a"}
	deferred := inplace.Assessment{Writes: []inplace.Write{final}, Pending: "deferred", GiveUp: &give, GiveUpAfter: 30 * time.Second, Phase: "a"}
	restarted := settle
	restarted.Phase = "b"
	run := func(gap time.Duration, upTo time.Duration, class func(time.Duration) v1alpha1.PodClass, a func(time.Duration) inplace.Assessment) UpdateChoice {
		state := Updates{}
		for at := time.Duration(0); ; at += gap {
			s := observed(noon.Add(at), class(at))
			state = state.Next(s, assessed(a(at)))
			if at >= upTo {
				return state.Of(&s.Ordinals[0], s.At)
			}
		}
	}
	always := func(time.Duration) v1alpha1.PodClass { return participating }
	same := func(a inplace.Assessment) func(time.Duration) inplace.Assessment {
		return func(time.Duration) inplace.Assessment { return a }
	}
	g.Expect(run(time.Second, 29*time.Second, always, same(settle)).Write).To(BeNil())
	g.Expect(run(time.Second, 30*time.Second, always, same(settle)).Write).To(Equal(&final))
	g.Expect(run(11*time.Second, 99*time.Second, always, same(settle)).Write).To(BeNil(), "gaps")
	g.Expect(run(time.Second, 35*time.Second, always, func(at time.Duration) inplace.Assessment {
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
