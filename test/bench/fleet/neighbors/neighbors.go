// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package neighbors measures how fast the operator reacts for healthy Etcds beside others that keep it busy: their members all
// hang, or they have as many tasks as may wait.
package neighbors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostFrozen is how many Etcds are frozen at the same time: no member answers any request.
	mostFrozen = 5
	// mostTasks is how many tasks of an Etcd may wait, and configSize the size of the config of each.
	mostTasks, configSize = 50, 58 << 10
	// sampleTimeout is for one sample.
	sampleTimeout = time.Minute
	// frozenTimeout is for the operator to see that members are frozen.
	frozenTimeout = 2 * time.Minute
)

// Result is how fast the operator is for an Etcd, in seconds, beside others that keep it busy.
type Result struct {
	Beside string `json:"beside"`
	// Task is how long an invalid task takes to be rejected, Etcd how long a changed spec takes to be observed: medians, and maxima.
	Task    float64 `json:"taskSeconds"`
	MaxTask float64 `json:"maxTaskSeconds"`
	Etcd    float64 `json:"etcdSeconds"`
	MaxEtcd float64 `json:"maxEtcdSeconds"`
}

// Measurement measures some Etcds of a fleet while others keep the operator busy.
type Measurement struct {
	Client client.Client
	Fleet  *simulated.Fleet
	// First is the first Etcd that may be measured, and Etcds how many there are. The last ones keep the operator busy.
	First, Etcds int
	// Samples is how often each reaction is measured.
	Samples int
	// Poll is how often an object is read until it is as it should be. Default: 5 ms.
	Poll time.Duration
}

// Run measures healthy Etcds beside none, one and several that are frozen while a rollout is to replace their pods, and beside
// one with as many tasks as may wait. Each is measured in turn, and the first again at the end. It returns what it has measured,
// also after an error.
func (m Measurement) Run(ctx context.Context, note func(string)) ([]Result, error) {
	var results []Result
	measure := func(what string) error {
		note(what)
		r, err := m.sample(ctx, what)
		results = append(results, r)
		return err
	}
	if err := measure("nothing"); err != nil {
		return results, err
	}
	last := m.Etcds - 1
	for n := range mostFrozen {
		if err := m.freeze(ctx, last-n); err != nil {
			return results, err
		}
		if frozen := n + 1; frozen == 1 || frozen == mostFrozen {
			if err := measure(fmt.Sprintf("%d frozen", frozen)); err != nil {
				return results, err
			}
		}
	}
	for n := range mostFrozen {
		m.Fleet.Freeze(false, last-n)
	}
	if err := m.crowd(ctx, last-mostFrozen); err != nil {
		return results, err
	}
	if err := measure(fmt.Sprintf("one with %d tasks", mostTasks)); err != nil {
		return results, err
	}
	if err := m.Client.DeleteAllOf(ctx, &v1alpha1.EtcdOperatorTask{}, client.InNamespace(simulated.Namespace(last-mostFrozen))); err != nil {
		return results, fmt.Errorf("removing the tasks: %w", err)
	}
	err := measure("nothing, again")
	return results, err
}

// freeze has no member of an Etcd answer, asks for a rollout, and waits until the operator has noticed.
func (m Measurement) freeze(ctx context.Context, etcd int) error {
	m.Fleet.Freeze(true, etcd)
	task := newTask(etcd, v1alpha1.QuorumAwareRollout, "restart: true")
	if err := m.Client.Create(ctx, task); err != nil {
		return fmt.Errorf("creating a rollout of Etcd %d: %w", etcd, err)
	}
	if err := m.touch(ctx, etcd, "frozen"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, frozenTimeout, fmt.Errorf("the operator does not notice within %s that Etcd %d is frozen", frozenTimeout, etcd))
	defer cancel()
	return poll.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		e := &v1alpha1.Etcd{}
		err := m.Client.Get(ctx, client.ObjectKey{Namespace: simulated.Namespace(etcd), Name: simulated.EtcdName}, e)
		return !e.Status.Conditions.IsTrue(v1alpha1.ConditionReady), err
	})
}

// crowd creates as many large tasks of an Etcd as may wait.
func (m Measurement) crowd(ctx context.Context, etcd int) error {
	config := "# " + strings.Repeat("x", configSize) + "\netcdDefragmentation: true"
	for range mostTasks {
		task := newTask(etcd, v1alpha1.OnDemandMaintenance, config)
		task.Spec.Suspend = true
		if err := m.Client.Create(ctx, task); err != nil {
			return fmt.Errorf("creating a task of Etcd %d: %w", etcd, err)
		}
	}
	return nil
}

func newTask(etcd int, taskType v1alpha1.TaskType, config string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(etcd), GenerateName: "task-"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: taskType, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: simulated.EtcdName}},
	}
}

// touch changes the spec of an Etcd in what no pod depends on.
func (m Measurement) touch(ctx context.Context, etcd int, value string) error {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(etcd), Name: simulated.EtcdName}}
	patch := fmt.Sprintf(`{"spec":{"etcd":{"clientService":{"annotations":{"touched":%q}}}}}`, value)
	if err := m.Client.Patch(ctx, e, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("changing Etcd %d: %w", etcd, err)
	}
	return nil
}

// sample measures healthy Etcds, one after another.
func (m Measurement) sample(ctx context.Context, beside string) (Result, error) {
	r := Result{Beside: beside}
	var ofTasks, ofEtcds []time.Duration
	for i := range m.Samples {
		etcd := m.First + i%(m.Etcds-m.First-mostFrozen-1)
		task, changed, err := m.Once(ctx, etcd, fmt.Sprint(beside, i))
		if err != nil {
			return r, err
		}
		ofTasks, ofEtcds = append(ofTasks, task), append(ofEtcds, changed)
	}
	slices.Sort(ofTasks)
	slices.Sort(ofEtcds)
	r.Task, r.MaxTask = median(ofTasks).Seconds(), slices.Max(ofTasks).Seconds()
	r.Etcd, r.MaxEtcd = median(ofEtcds).Seconds(), slices.Max(ofEtcds).Seconds()
	return r, nil
}

// Once measures one Etcd: how long an invalid task takes to be rejected, and how long a change to another value takes to be observed.
func (m Measurement) Once(ctx context.Context, etcd int, value string) (rejected, observed time.Duration, err error) {
	task := newTask(etcd, v1alpha1.OnDemandMaintenance, "nonsense: true")
	rejected, err = m.time(ctx, task, func() error { return m.Client.Create(ctx, task) }, func() bool { return task.Status.State == v1alpha1.TaskStateRejected })
	if err != nil {
		return 0, 0, fmt.Errorf("sampling Etcd %d by an invalid task: %w", etcd, err)
	}
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Namespace(etcd), Name: simulated.EtcdName}}
	observed, err = m.time(ctx, e, func() error { return m.touch(ctx, etcd, value) }, func() bool { return e.Status.ObservedGeneration == e.Generation })
	if err != nil {
		return 0, 0, fmt.Errorf("sampling Etcd %d by a change: %w", etcd, err)
	}
	return rejected, observed, nil
}

// median returns the lower one of an even number.
func median(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)/2] }

// time returns how long it takes from a change of an object until it is as it should be.
func (m Measurement) time(ctx context.Context, o client.Object, change func() error, is func() bool) (time.Duration, error) {
	from := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sampleTimeout, fmt.Errorf("the operator has not reacted within %s", sampleTimeout))
	defer cancel()
	err := poll.Until(ctx, cmp.Or(m.Poll, 5*time.Millisecond), func() (bool, error) {
		err := m.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		return is(), err
	})
	return time.Since(from), err
}
