// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The policy of a fleet, and the ledger of the operator.
const (
	policy            = "all"
	operatorNamespace = "operator"
)

// crashes begins the annotations of a pod template with which no member starts.
const crashes = "crashes-"

// fleetWishes are the operations of those who run a fleet; what users do to one of its Etcds is in wishes, too.
var fleetWishes = []wish{
	{"changes all pod templates", func(s *session, _ *judge, task string, _ *rand.Rand) { s.release(task) }},
	{"changes all pod templates to one that crashes", func(s *session, _ *judge, task string, random *rand.Rand) {
		s.open++
		s.spoil(crashes+task, time.Duration([]int{60, 660}[random.IntN(2)]+random.IntN(200))*time.Second, random.IntN(3) > 0)
	}},
	{"changes the policy", func(s *session, _ *judge, _ string, random *rand.Rand) {
		s.fleet.limit, s.fleet.canary = 1+random.IntN(2), random.IntN(3) > 0
		s.amend(random.IntN(3) == 0, time.Duration(random.IntN(60))*time.Second)
	}},
	{"deletes the ledger", func(s *session, _ *judge, _ string, _ *rand.Rand) {
		s.remove(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: v1alpha1.FleetConfigMap}})
	}},
}

// inFleets are the operations on one Etcd that a fleet has, too. None scales: while a recreation exists that a change of members has preempted, no task replaces
// the pod of a new member whose template crashes, so that neither ends.
var inFleets = []string{"restarts", "recreates", "maintains", "changes the pod template", "deletes the Etcd, and creates it again",
	"hibernates, and wakes up", "goes back to an earlier state", "deletes a task that runs", "suspends a task that runs, which is resumed"}

// Fleet draws what a seed stands for with four Etcds and a policy that lets one of them change at a time.
func (d Draw) Fleet(seed uint64) Script {
	users := loop.Random(seed, "users of a fleet")
	s := Script{Seed: seed, Members: []int32{1, 3, 3}[users.IntN(3)], Etcds: len(names), Store: loop.Random(seed, "store").IntN(2) == 0}
	all := slices.DeleteFunc(slices.Clone(wishes), func(w wish) bool { return !slices.Contains(inFleets, w.name) })
	s.Operations = d.operations(users, slices.Concat(all, fleetWishes), 60, 300)
	s.Faults = d.faults(loop.Random(seed, "chaos in a fleet"), s.operating(), 60)
	return s
}

// limit has someone create the policy, before there is anything that it limits.
func (s *session) limit() {
	s.fleet = newFleetJudge(s.World, 1)
	for _, name := range []string{Namespace, operatorNamespace} {
		s.must(s.writer.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"fleet": policy}}}))
	}
	s.must(s.writer.Create(context.Background(), s.fleet.policy()))
	s.attend()
}

// policy is what those who run the fleet ask for now.
func (f *fleetJudge) policy() *v1alpha1.EtcdFleetPolicy {
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"fleet": policy}
	p.Spec.MaxConcurrent, p.Spec.Soak = ptr.To(intstr.FromInt(f.limit)), &metav1.Duration{Duration: 20 * time.Second}
	p.Spec.Canary.Count = ptr.To[int32](0)
	if f.canary {
		p.Spec.Canary.Count = ptr.To[int32](1)
	}
	return p
}

// amend brings the policy up to what they ask for, now and then by another one of its name, which they create a while after they have deleted it.
func (s *session) amend(replace bool, after time.Duration) {
	if !replace {
		edit(s.World, "", policy, "", func(p *v1alpha1.EtcdFleetPolicy) { p.Spec = s.fleet.policy().Spec })
		return
	}
	s.remove(&v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}})
	s.open++
	s.After(after, "user", "creates the policy again", func() {
		s.open--
		_ = s.writer.Create(context.Background(), s.fleet.policy()) // another one may have
	})
}

// release changes the pod templates of all Etcds.
func (s *session) release(as string) {
	for _, j := range s.judges {
		edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{as: "true"} })
	}
}

// spoil releases a template that crashes once no rollout is open, and another one after a while. Someone may set the cluster right that it has
// reached, before that: its slot is free then, and the template is as bad as before.
func (s *session) spoil(as string, then time.Duration, help bool) {
	if s.Unfinished() != "" && !s.over {
		s.After(2*time.Second, "user", "", func() { s.spoil(as, then, help) })
		return
	}
	s.Log("user", "changes all pod templates to one that crashes")
	s.release(as)
	if help {
		then += time.Minute
		s.After(then/3, "user", "", func() { s.setRight(as) })
	}
	s.After(then, "user", "changes all pod templates to one that works", func() {
		s.open--
		s.release("works-" + as)
	})
}

// setRight gives those Etcds another template that one which crashes has reached, whether or not their rollout has failed by then.
func (s *session) setRight(bad string) {
	for _, j := range s.judges {
		if s.fleet.reached(j.name, bad) {
			s.Log("user", "changes the pod template of "+j.name+" to one that works")
			edit(s.World, Namespace, j.name, "", func(e *v1alpha1.Etcd) { e.Spec.Annotations = map[string]string{"right-" + bad: "true"} })
		}
	}
}

// attend has someone look after the fleet, while the templates are good.
func (s *session) attend() {
	s.After(time.Duration(30+s.helping.IntN(60))*time.Second, "user", "", func() {
		if !slices.ContainsFunc(s.judges, (*judge).isSpoiled) {
			s.resume()
		}
		s.attend()
	})
}

// resume has someone resume a change that was paused although its template is good: a fault has struck beside it.
func (s *session) resume() {
	p := apiserver.Find[*v1alpha1.EtcdFleetPolicy](s.API.Live(), "", policy)
	if p == nil {
		return
	}
	for _, c := range p.Status.Changes {
		if c.ResumeToken != "" && c.ResumeToken != p.Annotations[v1alpha1.AnnotationResumeChange] {
			s.Log("user", "resumes change "+c.Change)
			edit(s.World, "", policy, "", func(p *v1alpha1.EtcdFleetPolicy) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationResumeChange, c.ResumeToken)
			})
			return
		}
	}
}

// isSpoiled reports whether the template that an Etcd asks for is one with which no member starts.
func (j *judge) isSpoiled() bool { return j.etcd() != nil && isBad(j.etcd().Spec.Annotations) }

// isBad reports whether no member starts with a template.
func isBad(annotations map[string]string) bool {
	for key := range maps.Keys(annotations) {
		if strings.HasPrefix(key, crashes) {
			return true
		}
	}
	return false
}
