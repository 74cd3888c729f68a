// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.Time{Time: now.Add(-d)} }

func policy() *v1alpha1.EtcdFleetPolicy {
	watched, next := ago(time.Minute), ago(-10*time.Hour)
	p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "production", Generation: 2}}
	p.Status = v1alpha1.EtcdFleetPolicyStatus{
		ObservedGeneration: 2, Clusters: 120, Limit: 12, Used: 3, Waiting: 117, NextWindow: &next,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonChangeFailed, Message: "change v1-bad is paused"}},
		Holders: []v1alpha1.FleetHolder{
			{Namespace: "a", Etcd: "main", Task: "main-rollout-1", Change: "v1-new", Canary: true, Since: ago(time.Hour), WatchedSince: &watched},
			{Namespace: "b", Etcd: "main", Task: "defragmentation", Since: ago(time.Second)},
		},
		Changes: []v1alpha1.FleetChange{
			{Change: "v1-bad", Since: ago(2 * time.Hour), Waiting: 17, Failed: 1, Paused: "change v1-bad is paused", ResumeToken: "v1-bad.0"},
			{Change: "v1-new", Since: ago(time.Hour), Waiting: 100, Watched: 1},
			{Change: "v1-other", Since: ago(3 * time.Hour), Running: 1, Done: 4},
			{Change: "restart", Since: ago(48 * time.Hour), Done: 119, Failed: 1},
			{Change: "v1-failed", Since: ago(49 * time.Hour), Failed: 1},
			{Change: "v1-superseded", Since: ago(50 * time.Hour)},
		},
	}
	return p
}

func TestLines(t *testing.T) {
	for name, width := range map[string]int{"piped": 0, "80": 80} {
		golden.Check(t, "fleet-"+name+".txt", []byte(strings.Join(lines(policy(), now, width), "\n")+"\n"))
	}
}

// A policy that is not in force says what the operator has said of it, and guesses why only if that is not about its newest spec.
func TestAPolicyThatIsNotInForce(t *testing.T) {
	const guess = "No operator has seen its newest spec yet. If that lasts, the feature gate FleetPolicies of the operator is off, or a newer operator has written the ledger: then an event of the policy says so."
	notCounted := metav1.Condition{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, ObservedGeneration: 2, Reason: v1alpha1.ReasonTasksNotCounted, Message: "tasks of namespace a cannot be listed"}
	failed := metav1.Condition{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: v1alpha1.ReasonChangeFailed, Message: "change v1-bad is paused"}
	for name, c := range map[string]struct {
		observed   int64
		conditions []metav1.Condition
		want       []string
	}{
		"it is new and unseen":        {0, nil, []string{guess}},
		"its tasks cannot be counted": {0, []metav1.Condition{notCounted}, []string{"Paused: tasks of namespace a cannot be listed"}},
		"its newest spec is unseen":   {1, []metav1.Condition{failed}, []string{"Paused: change v1-bad is paused", guess}},
	} {
		p := policy()
		p.Status.ObservedGeneration, p.Status.Conditions = c.observed, c.conditions
		want := append([]string{"production: its newest spec is not in force"}, c.want...)
		if got := lines(p, now, 0); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Which change is resumed by which policy. One that waits because another one to the same template failed is resumed by that one, whose name and
// command its message has.
func TestResumable(t *testing.T) {
	held := policy()
	held.Status.Changes = append(held.Status.Changes, v1alpha1.FleetChange{Change: "v1-held", Waiting: 1, Paused: "change v1-held leads to a template that failed: change v1-bad is paused"})
	other := policy()
	other.Name = "other"
	for name, c := range map[string]struct {
		all           []v1alpha1.EtcdFleetPolicy
		change, fails string
	}{
		"it failed":              {[]v1alpha1.EtcdFleetPolicy{*held}, "v1-bad", ""},
		"it failed in both":      {[]v1alpha1.EtcdFleetPolicy{*held, *other}, "v1-bad", "EtcdFleetPolicies production and other have paused change v1-bad: name one with --policy"},
		"another one failed":     {[]v1alpha1.EtcdFleetPolicy{*other, *held}, "v1-held", "EtcdFleetPolicy production: change v1-held leads to a template that failed: change v1-bad is paused"},
		"it is not paused":       {[]v1alpha1.EtcdFleetPolicy{*held}, "v1-new", "no EtcdFleetPolicy has paused change \"v1-new\""},
		"nothing is known of it": {[]v1alpha1.EtcdFleetPolicy{*held}, "v1-none", "no EtcdFleetPolicy has paused change \"v1-none\""},
	} {
		p, token, err := resumable(c.all, c.change)
		if c.fails == "" && (err != nil || p != &c.all[0] || token != "v1-bad.0") || c.fails != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fails)) {
			t.Errorf("%s: %v, %q, %v", name, p, token, err)
		}
	}
}

// A token is added to those that the operator may not have read yet, of which the newest are kept.
func TestTokens(t *testing.T) {
	for _, c := range []struct{ all, token, want string }{
		{"", "a.1", "a.1"}, {"a.1", "b.1", "a.1,b.1"}, {"a.1,b.1", "a.1", "b.1,a.1"}, {"0,1,2,3,4,5,6,7,8,9", "10", "1,2,3,4,5,6,7,8,9,10"},
	} {
		if got := withToken(c.all, c.token); got != c.want {
			t.Errorf("%q and %q: %q", c.all, c.token, got)
		}
	}
}
