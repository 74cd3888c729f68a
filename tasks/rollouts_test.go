// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// set is the StatefulSet m of an owner at a revision.
func set(owner types.UID, revision string, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Generation: 2}}
	if owner != "" {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: owner, Controller: ptr.To(true)}}
	}
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	s.Status.UpdateRevision, s.Status.ObservedGeneration = revision, 2
	for _, c := range change {
		c(s)
	}
	return s
}

func reader(s *appsv1.StatefulSet) client.Client {
	b := fake.NewClientBuilder()
	if s != nil {
		b.WithObjects(s)
	}
	return b.Build()
}

func rolloutTask(target string) Typed[rollout.Config] {
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	t.Spec.OwnerEtcdReference.Name = "m"
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
	return Typed[rollout.Config]{Task: Task{Object: t, Etcd: etcd}, Config: rollout.Config{TargetRevision: target}}
}

// A rollout is for the StatefulSet of its Etcd, whatever else has that name.
func TestRolloutsAreAdmittedForTheEtcdsOwnStatefulSet(t *testing.T) {
	rolling := func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	for name, c := range map[string]struct {
		live *appsv1.StatefulSet
		want v1alpha1.ErrorCode
	}{
		"its own":                      {set("etcd", "new"), ""},
		"none":                         {nil, v1alpha1.ErrStatefulSetNotFound},
		"without an owner":             {set("", "new"), v1alpha1.ErrForeignObject},
		"that of an earlier Etcd":      {set("earlier", "new"), v1alpha1.ErrForeignObject},
		"another controller rolls it":  {set("etcd", "new", rolling), v1alpha1.ErrStrategy},
		"a foreign one with RollingUp": {set("earlier", "new", rolling), v1alpha1.ErrForeignObject},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: reader(c.live), Live: reader(c.live)}
			v, err := r.Admit(t.Context(), rolloutTask(""))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Code).To(Equal(c.want), v.Message)
			g.Expect(v.Outcome == Continue).To(Equal(c.want == ""))

			r.Live = reader(set("etcd", "new"))
			v, err = r.Admit(t.Context(), rolloutTask(""))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(Continue), "a cache that lags rejects nothing")
		})
	}
}

// A cache that lags ends no task.
func TestRolloutsAreSupersededOnLiveReads(t *testing.T) {
	unobserved := func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 1 }
	for name, c := range map[string]struct {
		cached, live *appsv1.StatefulSet
		superseded   bool
	}{
		"as it was":                    {set("etcd", "new"), set("etcd", "new"), false},
		"another template":             {set("etcd", "newer"), set("etcd", "newer"), true},
		"the cache lags":               {set("etcd", "older"), set("etcd", "new"), false},
		"the cache has yet to show it": {set("etcd", "new"), set("etcd", "newer"), false},
		"the template was not seen":    {set("etcd", "newer"), set("etcd", "newer", unobserved), false},
		"that of an earlier Etcd":      {set("earlier", "newer"), set("earlier", "newer"), false},
		"it is gone":                   {set("etcd", "newer"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			by, err := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: reader(c.cached), Live: reader(c.live)}.Superseded(t.Context(), rolloutTask("new"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(by != "").To(Equal(c.superseded), by)
		})
	}
}

func TestWorkOfRollouts(t *testing.T) {
	g := NewWithT(t)
	r := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: reader(set("etcd", "current"))}
	g.Expect(r.WorkKey(t.Context(), rolloutTask("fixed"))).To(Equal("fixed"))
	g.Expect(r.WorkKey(t.Context(), rolloutTask(""))).To(Equal("current"))
	g.Expect(Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: reader(set("earlier", "current"))}.WorkKey(t.Context(), rolloutTask(""))).To(BeEmpty())
}

// A restart leaves alone what is newer than itself, which a later one replaces: what it has replaced by then, and what others have.
func TestWorkOfRestarts(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(i int, after time.Duration) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("m-%d", i), CreationTimestamp: metav1.Time{Time: created.Add(after)}}}
	}
	three := func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To(int32(3)) }
	for name, c := range map[string]struct {
		objects []client.Object
		begun   bool
		same    bool
	}{
		"nothing is replaced":           {[]client.Object{set("etcd", "new", three), pod(0, -time.Hour), pod(1, -time.Hour), pod(2, 0)}, false, true},
		"it has begun":                  {[]client.Object{set("etcd", "new", three), pod(0, -time.Hour), pod(1, -time.Hour)}, true, false},
		"another has replaced a pod":    {[]client.Object{set("etcd", "new", three), pod(0, -time.Hour), pod(1, time.Second), pod(2, -time.Hour)}, false, false},
		"a pod that is not of its Etcd": {[]client.Object{set("earlier", "new", three), pod(1, time.Second)}, false, true},
		"a pod beyond the replicas":     {[]client.Object{set("etcd", "new", three), pod(3, time.Second)}, false, true},
		"there is no StatefulSet":       {nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: fake.NewClientBuilder().WithObjects(c.objects...).Build()}
			restart := func(uid types.UID, at time.Time) Typed[rollout.Config] {
				task := rolloutTask("")
				task.Object.UID, task.Object.CreationTimestamp, task.Config.Restart = uid, metav1.Time{Time: at}, true
				return task
			}
			first, second, third := restart("first", created), restart("second", created.Add(time.Minute)), restart("third", created.Add(2*time.Minute))
			if c.begun {
				first.Object.Status.Rollout = &v1alpha1.RolloutStatus{Pods: []v1alpha1.RolloutPod{{Name: "m-2"}}}
			}
			var keys []string
			for _, task := range []Typed[rollout.Config]{first, second, third} {
				key, err := r.WorkKey(t.Context(), task)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(key).NotTo(BeEmpty())
				keys = append(keys, key)
			}
			g.Expect(keys[0] == keys[1]).To(Equal(c.same))
			g.Expect(keys[1]).To(Equal(keys[2]), "no more than one waits")
		})
	}
}

// While the StatefulSet cannot be read, nothing is said of a rollout.
func TestRolloutsWithoutAnAnswer(t *testing.T) {
	apitest.EachRequestFails(t, apitest.API(set("etcd", "new")), func(api client.WithWatch) error {
		_, err := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: api, Live: api}.WorkKey(t.Context(), rolloutTask(""))
		return err
	})
	apitest.EachRequestFails(t, apitest.API(set("etcd", "new")), func(api client.WithWatch) error {
		restart := rolloutTask("")
		restart.Config.Restart = true
		_, err := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: api, Live: api}.WorkKey(t.Context(), restart)
		return err
	})
	apitest.EachRequestFails(t, apitest.API(set("etcd", "new")), func(api client.WithWatch) error {
		by, err := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: api, Live: &live{api}}.Superseded(t.Context(), rolloutTask("old"))
		NewWithT(t).Expect(by == "").To(Equal(err != nil))
		return err
	})
	apitest.EachRequestFails(t, apitest.API(set("etcd", "new")), func(api client.WithWatch) error {
		_, err := Rollouts[rollout.Config]{Rule: replacer.Operator{}, Client: api, Live: api}.Admit(t.Context(), rolloutTask(""))
		return err
	})
}

// live is an API server that can be told from a cache.
type live struct{ client.Reader }
