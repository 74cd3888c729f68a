// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/spec"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// witness is an Observer that has been told what to say, of the cache and of the API server.
type witness struct {
	live         client.Reader
	cached, real *cluster.Snapshot
}

var errNoAnswer = errors.New("no answer")

func (w *witness) Observe(_ context.Context, reader client.Reader, _ *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	says := w.cached
	if reader == w.live {
		says = w.real
	}
	if says == nil {
		return nil, errNoAnswer
	}
	return says, nil
}

func newHandler(cached, live *cluster.Snapshot) *Handler {
	cache, server := fake.NewClientBuilder().Build(), fake.NewClientBuilder().Build()
	return &Handler{Client: cache, Live: server, Observer: &witness{live: server, cached: cached, real: live}, Clock: clocktesting.NewFakePassiveClock(epoch)}
}

// seen is a world as an Observer sees it, with changes.
func seen(change ...func(*Input)) *cluster.Snapshot {
	in := newWorld()
	for _, c := range change {
		c(in)
	}
	return in.Snapshot
}

func revision(name string) func(*Input) {
	return func(in *Input) { in.Snapshot.StatefulSet.UpdateRevision = name }
}

func recreation(phase v1alpha1.RecreatePhase) tasks.Task {
	etcd := &v1alpha1.Etcd{}
	object := &v1alpha1.EtcdOperatorTask{Status: v1alpha1.EtcdOperatorTaskStatus{Rollout: &v1alpha1.RolloutStatus{Phase: phase, TargetRevision: "new"}}}
	object.UID = "task"
	return tasks.Task{Object: object, Etcd: etcd, Config: spec.Recreate{}}
}

// Another phase stops all members, or starts them. It is entered on what the API server says, and so does the task end.
func TestPhaseIsEnteredOnLiveReads(t *testing.T) {
	held := func(left ...string) func(*Input) { return func(in *Input) { in.hold(left...) } }
	back := func(in *Input) { in.pods("new", v1alpha1.ClassParticipating) }
	const (
		needs   = v1alpha1.RecreateNeedsDeletion
		waiting = v1alpha1.RecreateWaitingTermination
		ready   = v1alpha1.RecreateReadyForCreation
	)
	for name, c := range map[string]struct {
		phase        v1alpha1.RecreatePhase
		cached, live *cluster.Snapshot
		want         v1alpha1.RecreatePhase
		outcome      tasks.Outcome
	}{
		"nothing has to be done any more":     {"", seen(), seen(back), v1alpha1.RecreateComplete, tasks.Done},
		"what the cache shows is waited on":   {waiting, seen(held("m-0")), nil, waiting, tasks.Continue},
		"a pod is left that it does not show": {waiting, seen(held()), seen(held("m-0")), waiting, tasks.Continue},
		"it is not held, and the cache lags":  {needs, seen(held()), seen(), needs, tasks.Continue},
		"all are gone":                        {waiting, seen(held()), seen(held()), ready, tasks.Continue},
		"not all are back, and it lags":       {ready, seen(back), seen(func(in *Input) { in.pods("new", v1alpha1.ClassMissing) }), ready, tasks.Continue},
		"all are back":                        {ready, seen(back), seen(back), v1alpha1.RecreateComplete, tasks.Done},
		"the cache shows an older template":   {waiting, seen(revision("older")), seen(held("m-0")), waiting, tasks.Continue},
		"there is a newer template":           {waiting, seen(revision("newer")), seen(revision("newer")), waiting, tasks.Reject},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v, err := newHandler(c.cached, c.live).Execute(t.Context(), recreation(c.phase))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(v.Outcome).To(Equal(c.outcome), v.Message)
			g.Expect(v.Rollout.Phase).To(Equal(c.want), v.Message)
		})
	}
}

func TestNothingIsEnteredWhenTheAPIServerDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	_, err := newHandler(seen(), nil).Execute(t.Context(), recreation(""))
	g.Expect(err).To(MatchError(errNoAnswer))
	coded, ok := errors.AsType[*tasks.CodedError](err)
	g.Expect(ok).To(BeTrue())
	g.Expect(coded.Code).To(Equal(v1alpha1.ErrObserve))
}

// Members that hang would delay every task of the Etcd, and stop the timers of the one that runs: a recreation that waits in
// line asks none.
func TestARecreationThatWaitsAsksNoMember(t *testing.T) {
	g := NewWithT(t)
	task := recreation("")
	task.Etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
	task.Object.Namespace, task.Object.Spec.OwnerEtcdReference.Name = "ns", "m"
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: "etcd", Controller: ptr.To(true)},
	}}}
	set.Status.UpdateRevision = "newer"
	cluster := fake.NewClientBuilder().WithObjects(set).Build()
	h := &Handler{Client: cluster, Live: cluster, Observer: &witness{}}
	by, err := h.Superseded(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(by).To(ContainSubstring("is newer, not new"))
	task.Object.Status.Rollout = nil
	key, err := h.WorkKey(t.Context(), task)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(Equal("newer"))
}
