// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the operator and all that surrounds it in one process, in virtual time, with one seed: the controllers, the task
// engine and its handlers, and the agents' decisions are the real ones; the API server, the controllers of Kubernetes, nodes, volumes and members
// are models. docs/simulation.md says what is modeled, and what is not.
package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace of the Etcds of a simulation.
const Namespace = "ns"

// names of the Etcds: there is one, or there are several in a fleet.
var names = []string{"main", "north", "south", "west"}

// World is all that surrounds the operator.
type World struct {
	*loop.Loop
	API  *apiserver.Server
	Etcd *members.Etcd
	// Broken is what must never happen and has, in words.
	Broken []string

	operators []*operator
	nodes     []*node
	pods      map[types.UID]*pod
	runs      map[*members.Member]*pod
	disks     map[string]*members.Disk
	// judges are those of the Etcds, and fleet is the one of what limits them; nil without a fleet.
	judges []*judge
	fleet  *fleetJudge
	faults *faults
	// revisions counts the templates of StatefulSets, and revised has the newest revision of each.
	revisions int64
	revised   map[types.UID]revised
	// lives are what had happened when tasks were created, and ended is when they ended.
	lives map[types.UID]life
	ended map[types.UID]time.Duration
	// seen counts what has occurred.
	seen census
	// acts counts what users did, and acted is when they did so last.
	acts  int
	acted time.Duration
	// defragmented is when members were, and compacted when an Etcd was, by name.
	defragmented, compacted map[string]time.Duration
	// removed are the pods that operators have removed. collecting: the garbage collector is at work.
	removed    map[types.UID]removed
	collecting bool
	// repeats are the newest writes of controllers.
	repeats map[string]repeated
	// configurations are what agents read in a ConfigMap, by its revision.
	configurations map[*corev1.ConfigMap]*member.Shared
	// copies is how many copies of data were made.
	copies int
	// raft is how many broken promises of raft were told of.
	raft int
	// pace draws how long things take, and keeps for how long tasks are kept.
	pace, keeps *rand.Rand
	// writer carries out at once what the controllers of Kubernetes, kubelets and users write.
	writer *apiserver.Client
	// watched is told now and then, to record what the world is; nil if that is not to be.
	watched func()
	// pending are the controllers that are about to look again.
	pending map[string]bool
}

// scheme is the same in all worlds: it takes longer to make than some of them last.
var scheme = sync.OnceValues(inmemory.NewScheme)

// New makes a world of nodes for a number of Etcds, without one and without an operator.
func New(seed uint64, nodes, etcds int) (*World, error) {
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	l := loop.New(seed)
	w := &World{
		Loop: l, API: apiserver.New(scheme, time.Now), Etcd: members.New(l.Random("members")), pods: map[types.UID]*pod{}, runs: map[*members.Member]*pod{}, disks: map[string]*members.Disk{},
		pace: l.Random("pace"), keeps: l.Random("lives"), pending: map[string]bool{}, repeats: map[string]repeated{}, removed: map[types.UID]removed{}, ended: map[types.UID]time.Duration{}, lives: map[types.UID]life{}, seen: census{}, defragmented: map[string]time.Duration{}, compacted: map[string]time.Duration{}, faults: newFaults(l),
		configurations: map[*corev1.ConfigMap]*member.Shared{}, revised: map[types.UID]revised{},
	}
	if err := etcdtasks.Index(context.Background(), w.API); err != nil {
		return nil, err
	}
	for _, name := range names[:etcds] {
		w.judges = append(w.judges, newJudge(w, name))
	}
	w.writer = w.API.Direct()
	w.API.Watch = w.changed
	w.Etcd.Log, w.Etcd.Reaches = w.Log, w.reaches
	for i := range nodes {
		n := &node{world: w, name: fmt.Sprintf("node-%d", i)}
		w.nodes = append(w.nodes, n)
		w.must(w.writer.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name}}}))
		n.report(corev1.ConditionTrue)
		w.After(time.Duration(i)*renewals/time.Duration(nodes), n.name, "", n.renew)
	}
	w.beat()
	return w, nil
}

// beat has the members do what they do all the time.
func (w *World) beat() {
	w.After(w.between(100, 400), "etcd", "", func() {
		w.Etcd.Round()
		w.agents()
		for ; w.raft < len(w.Etcd.Broken); w.raft++ {
			w.broke("the model of etcd: %s", w.Etcd.Broken[w.raft])
		}
		for _, j := range w.judges {
			j.members()
			j.judgeTruth()
		}
		if w.watched != nil {
			w.watched()
		}
		w.beat()
	})
}

// Log adds a line to the Trace.
func (w *World) Log(who, what string) {
	if who == "user" {
		w.acts, w.acted = w.acts+1, w.Now()
	}
	w.Loop.Log(who, what)
}

// between draws a time between two numbers of milliseconds.
func (w *World) between(least, most int) time.Duration {
	return time.Duration(least+w.pace.IntN(most-least+1)) * time.Millisecond
}

// must notes an error of the model.
func (w *World) must(err error) {
	if err != nil {
		w.broke("the model: %v", err)
	}
}

// broke notes what must never happen.
func (w *World) broke(format string, args ...any) {
	w.Broken = append(w.Broken, fmt.Sprintf(format, args...))
	w.Log("BROKEN", fmt.Sprintf(format, args...))
}

// once has something looked at again after a while, unless it is about to be.
func (w *World) once(what string, after time.Duration, do func()) {
	if w.pending[what] {
		return
	}
	w.pending[what] = true
	w.After(after, what, "", func() {
		delete(w.pending, what)
		do()
	})
}

// controller has a controller of Kubernetes look after a while; not while they stand still.
func (w *World) controller(which string, after time.Duration, look func()) {
	w.once(which, after, func() {
		if w.faults.still {
			w.controller(which, w.between(500, 2000), look)
			return
		}
		look()
	})
}

// changed is told of each change at the API server.
func (w *World) changed(c apiserver.Change) {
	for _, j := range w.judges {
		j.change(c)
	}
	if w.fleet != nil {
		w.fleet.change(c)
	}
	for _, o := range w.operators {
		o.follow(c.Kind)
	}
	switch object := c.Object().(type) {
	case *corev1.Pod:
		w.podChanged(object, c.After == nil)
	case *corev1.PersistentVolumeClaim:
		w.controller("claims", w.between(10, 100), w.protect)
	}
	switch c.Kind {
	case "StatefulSet", "Pod", "PersistentVolumeClaim":
		w.controller("StatefulSet controller", w.between(5, 300), w.statefulSets)
	}
	switch c.Kind {
	case "Job", "Pod":
		w.controller("Job controller", w.between(5, 300), w.jobs)
	}
	// An operator whose cache is behind creates objects of an Etcd that is gone.
	if c.After == nil || c.After.GetDeletionTimestamp() != nil || c.Before == nil && len(c.After.GetOwnerReferences()) > 0 {
		w.controller("garbage collector", w.between(5, 1000), w.collect)
	}
}

// collect is the garbage collector.
func (w *World) collect() {
	w.collecting = true
	w.API.Collect()
	w.collecting = false
}

// edit changes an object, or its status, as it is now.
func edit[T client.Object](w *World, namespace, name, sub string, change func(T)) {
	found := apiserver.Find[T](w.API.Live(), namespace, name)
	if any(found) == any(*new(T)) {
		return
	}
	next := found.DeepCopyObject().(T)
	change(next)
	w.must(client.IgnoreNotFound(w.API.Edit(next, sub)))
}

// remove deletes an object.
func (w *World) remove(o client.Object, options ...client.DeleteOption) {
	w.must(client.IgnoreNotFound(w.writer.Delete(context.Background(), o, options...)))
}

// etcdOf is the Etcd to which a member, or its pod, belongs.
func etcdOf(pod string) string { return pod[:max(strings.LastIndex(pod, "-"), 0)] }

// of returns the judge of the Etcd to which a member, or its pod, belongs.
func (w *World) of(pod string) *judge {
	if i := slices.IndexFunc(w.judges, func(j *judge) bool { return j.name == etcdOf(pod) }); i >= 0 {
		return w.judges[i]
	}
	return w.judges[0]
}
