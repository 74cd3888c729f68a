// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A template does not go through the fleet of an operator that has ended, and the benchmark says so at once.
func TestAnOperatorThatEnds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}}
	o := &operator{cmd: exec.Command("false"), exited: make(chan struct{})}
	_ = o.cmd.Run()
	close(o.exited)
	b := &bench{options: options{etcds: 2}, env: &env.Env{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).Build()}, operator: o}
	if err := b.untilThrough(t.Context(), func(string) {}, &passage{}); err == nil || !strings.Contains(err.Error(), "the operator has ended (exit status 1)") {
		t.Errorf("%v", err)
	}
}

// A policy that has just been created is paused until tasks are counted: that is not the end of a template.
func TestAPolicyThatIsNotInForceYet(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for reason, paused := range map[string]string{v1alpha1.ReasonTasksNotCounted: "", v1alpha1.ReasonChangeFailed: "why"} {
		policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Status: v1alpha1.EtcdFleetPolicyStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: reason, Message: "why"}},
			Changes:    []v1alpha1.FleetChange{{Done: 2}},
		}}
		o := &operator{exited: make(chan struct{})}
		b := &bench{options: options{etcds: 2}, env: &env.Env{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).Build()}, operator: o}
		p := &passage{}
		if err := b.untilThrough(t.Context(), func(string) {}, p); err != nil || p.Paused != paused {
			t.Errorf("%s: %q, %v", reason, p.Paused, err)
		}
	}
}

func TestIdeal(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		each    []time.Duration
		slots   int
		seconds float64
		order   float64
	}{
		"nothing":               {nil, 2, 0, 0},
		"a canary":              {[]time.Duration{3 * s}, 2, 3 + 10, 13.0 / 3},
		"of equal length":       {[]time.Duration{s, s, s, s, s}, 2, 1 + 10 + 2, 13.0 / 2.5},
		"the longest one last":  {[]time.Duration{s, s, s, 8 * s}, 2, 1 + 10 + 1 + 8, 20.0 / 8},
		"the longest one first": {[]time.Duration{s, 8 * s, s, s}, 2, 1 + 10 + 8, 19.0 / 8},
	} {
		if seconds, order := ideal(c.each, c.slots, 10*s); seconds != c.seconds || order < c.order-0.001 || order > c.order+0.001 {
			t.Errorf("%s: %v s, %v", name, seconds, order)
		}
	}
}
