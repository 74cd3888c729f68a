// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// good is a template that works. Others are named as in package simulated.
const good = "good"

const (
	// policyName is that of the policy of the fleet.
	policyName = "bench"
	// policyTimeout is how long a template may take to go through the fleet, or to be paused: a rollout is stalled after ten minutes.
	policyTimeout = 3 * time.Hour
	// aftermath is how long a change that is paused is watched.
	aftermath = time.Minute
	// maxPrice is how much longer than the ideal a template may take to go through the fleet.
	maxPrice = 1.1
)

// passage is how a template went through the fleet.
type passage struct {
	Template string `json:"template"`
	Slots    int    `json:"slots"`
	// Touched is the number of Etcds of which a pod was deleted, and Seconds the time until the last task has ended, or until the change is
	// paused.
	Touched int     `json:"etcdsTouched"`
	Seconds float64 `json:"seconds"`
	// Paused is what the policy says of a change that failed.
	Paused string `json:"paused,omitempty"`
	// Ideal is how long it takes if a slot is never idle, by the durations and the order of the rollouts; Order is how much longer that is
	// than any order must take. 0 for one that failed.
	Ideal float64 `json:"idealSeconds,omitempty"`
	Order float64 `json:"priceOfTheOrder,omitempty"`
	// Uncounted are the clusters that were not done by the policy in the end, beside several operators.
	Uncounted int `json:"uncounted,omitempty"`
	// FalseAlarms are why changes were paused that work, beside several operators.
	FalseAlarms []string `json:"falseAlarms,omitempty"`
	// Twins is what several operators did; nil if there was one.
	Twins *twins `json:"twins,omitempty"`
}

// throughPolicy changes the templates of all Etcds at once, under a policy with one canary.
func (b *bench) throughPolicy(ctx context.Context) error {
	return b.console.Step(fmt.Sprintf("template %q, %d slots", b.policy, b.slots), func(note func(string)) (string, error) {
		if err := b.server.untilQuiet(ctx); err != nil {
			return "", err
		}
		policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: v1alpha1.EtcdFleetPolicySpec{
			MaxConcurrent: ptr.To(intstr.FromInt32(int32(b.slots))), Soak: &metav1.Duration{Duration: b.soak},
			Canary: v1alpha1.FleetCanary{Count: ptr.To[int32](1), Soak: &metav1.Duration{Duration: b.soak}},
		}}
		if err := b.env.Client.Create(ctx, policy); err != nil {
			return "", fmt.Errorf("creating the policy: %w", err)
		}
		p := &passage{Template: b.policy, Slots: b.slots}
		b.results.Policy = p
		from, err := b.changeAll(ctx, note, p)
		if err != nil {
			return "", err
		}
		if b.policy != good {
			p.Seconds = time.Since(from).Seconds()
			if !sleep(ctx, aftermath) {
				return "", context.Cause(ctx)
			}
		} else if err := b.compareWithIdeal(ctx, p, from); err != nil {
			return "", err
		}
		for i := range b.etcds {
			if len(b.kubelet.Since(i, from)) > 0 {
				p.Touched++
			}
		}
		if p.Touched == 0 {
			return "", errors.New("the template reached no Etcd, so nothing was measured")
		}
		return fmt.Sprintf("%d Etcds touched in %.1f s", p.Touched, p.Seconds), nil
	})
}

// changeAll changes the templates of all Etcds, and waits until all are done or the change is paused. It returns when it began.
func (b *bench) changeAll(ctx context.Context, note func(string), p *passage) (from time.Time, err error) {
	judged := func(time.Time) (*twins, error) { return nil, nil }
	if b.operators > 1 {
		if judged, err = b.judgeTwins(ctx); err != nil {
			return from, err
		}
	}
	from = time.Now()
	defer func() {
		var wrong error
		p.Twins, wrong = judged(from)
		err = errors.Join(err, wrong)
	}()
	for i := range b.etcds {
		if err := b.changeTo(ctx, i, b.policy); err != nil {
			return from, err
		}
	}
	if err := b.untilThrough(ctx, note, p); err != nil || b.policy != good || p.Paused == "" {
		return from, err
	}
	return from, fmt.Errorf("a template that works was paused: %s", p.Paused)
}

// untilThrough waits until all Etcds are done, or the change is paused. It fails if the operator ends.
func (b *bench) untilThrough(ctx context.Context, note func(string), p *passage) error {
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeout, fmt.Errorf("the template is neither everywhere nor paused within %s", policyTimeout))
	defer cancel()
	busy := time.Now()
	return poll.Until(ctx, 500*time.Millisecond, func() (bool, error) {
		for _, o := range append(slices.Clone(b.twins), b.operator) {
			if err := o.alive(); err != nil {
				return false, err
			}
		}
		policy := &v1alpha1.EtcdFleetPolicy{}
		if err := b.env.Client.Get(ctx, client.ObjectKey{Name: policyName}, policy); err != nil {
			return false, fmt.Errorf("reading the policy: %w", err)
		}
		done := 0
		for _, c := range policy.Status.Changes {
			done += int(c.Done)
		}
		note(fmt.Sprintf("%d of %d are done, %d slots are in use", done, b.etcds, policy.Status.Used))
		// A new policy is paused until the tasks are counted.
		if paused := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionPaused); paused != nil && paused.Reason == v1alpha1.ReasonChangeFailed {
			if b.operators > 1 {
				return false, b.resume(ctx, policy, p)
			}
			p.Paused = paused.Message
			return true, nil
		}
		if done == 0 || policy.Status.Used > 0 || policy.Status.Waiting > 0 {
			busy = time.Now()
		}
		// Of several operators, one may release a cluster that the other watches: it is not counted.
		p.Uncounted = b.etcds - done
		return p.Uncounted == 0 || b.operators > 1 && time.Since(busy) > aftermath, nil
	})
}

// resume resumes the changes that were paused although they work: an operator that was paused writes what it knew, and the breaker stops for
// that.
func (b *bench) resume(ctx context.Context, policy *v1alpha1.EtcdFleetPolicy, p *passage) error {
	for _, c := range policy.Status.Changes {
		if c.ResumeToken == "" || c.Paused == "" || policy.Annotations[v1alpha1.AnnotationResumeChange] == c.ResumeToken {
			continue
		}
		before := policy.DeepCopy()
		metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.AnnotationResumeChange, c.ResumeToken)
		if err := b.env.Client.Patch(ctx, policy, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("resuming a change: %w", err)
		}
		p.FalseAlarms = append(p.FalseAlarms, c.Paused)
		return nil
	}
	return nil
}

// compareWithIdeal computes how long the rollouts that took place take at best, and took: from the first change until the last slot was
// free. The last clusters are watched after that.
func (b *bench) compareWithIdeal(ctx context.Context, p *passage, from time.Time) error {
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := b.env.Client.List(ctx, tasks); err != nil {
		return fmt.Errorf("listing the tasks: %w", err)
	}
	all := slices.DeleteFunc(tasks.Items, func(t v1alpha1.EtcdOperatorTask) bool { return t.Status.CompletedAt == nil })
	slices.SortFunc(all, func(a, b v1alpha1.EtcdOperatorTask) int {
		return a.Status.InitiatedAt.Compare(b.Status.InitiatedAt.Time)
	})
	var each []time.Duration
	for i := range all {
		each = append(each, all[i].Status.CompletedAt.Sub(all[i].Status.InitiatedAt.Time))
		// The API server has whole seconds.
		p.Seconds = max(p.Seconds, all[i].Status.CompletedAt.Add(time.Second/2).Sub(from).Seconds())
	}
	p.Ideal, p.Order = ideal(each, p.Slots, b.soak)
	return nil
}

// ideal returns the seconds that rollouts take in this order if the first is a canary, which is watched, and each of the slots takes the
// next one as soon as it is free; and how much longer that is than any order must take.
func ideal(each []time.Duration, slots int, soak time.Duration) (seconds, order float64) {
	if len(each) == 0 {
		return 0, 0
	}
	free := make([]time.Duration, slots)
	var total, longest time.Duration
	for i, d := range each {
		longest = max(longest, d)
		total += d
		if i == 0 {
			for s := range free {
				free[s] = d + soak
			}
			continue
		}
		next := slices.Index(free, slices.Min(free))
		free[next] += d
	}
	end := slices.Max(free)
	least := max(longest, total/time.Duration(slots))
	return end.Seconds(), end.Seconds() / least.Seconds()
}

func (p *passage) targets() []target.Target {
	switch {
	case p.Template != good:
		return []target.Target{target.New("Etcds that a bad template reached", "", float64(p.Touched), 1)}
	case p.Twins != nil:
		// What one has begun when it is paused takes as long as the pause.
		return p.Twins.targets(p.Slots)
	}
	return []target.Target{target.New("a good template, compared with the ideal", "x", p.Seconds/p.Ideal, maxPrice)}
}

func (p *passage) table() string {
	if p.Template != good {
		return fmt.Sprintf("template %q: %d Etcds touched, paused after %.1f s: %s\n", p.Template, p.Touched, p.Seconds, strings.TrimSpace(p.Paused))
	}
	said := ""
	if p.Twins != nil {
		said = fmt.Sprintf("%s; %d Etcds were rolled and not counted as done\n", p.Twins, p.Uncounted)
		for _, holders := range p.Twins.Exceeded {
			said += fmt.Sprintln("  above the limit:", holders)
		}
		for _, why := range p.FalseAlarms {
			said += fmt.Sprintln("  paused and resumed:", why)
		}
	}
	return said + fmt.Sprintf("template %q: %d Etcds in %.1f s with %d slots, ideal %.1f s; the order takes %.2f times as long as any must\n", p.Template, p.Touched, p.Seconds, p.Slots, p.Ideal, p.Order)
}

// templates are what -policy may be.
func templates() []string {
	return []string{good, simulated.Crashes, simulated.Restarts, simulated.Alarms}
}
