// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A task that has succeeded has done what it was for, and one that has not was disturbed.
func TestJudgeOfTasks(t *testing.T) {
	succeeds := func(_ *World, t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateSucceeded }
	fails := func(_ *World, t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateFailed }
	rejected := func(code v1alpha1.ErrorCode) func(*World, *v1alpha1.EtcdOperatorTask) {
		return func(_ *World, t *v1alpha1.EtcdOperatorTask) {
			t.Status.State, t.Status.LastErrors = v1alpha1.TaskStateRejected, []v1alpha1.LastError{{Code: code}}
		}
	}
	for name, test := range map[string]struct {
		of     v1alpha1.TaskType
		config string
		ends   func(w *World, t *v1alpha1.EtcdOperatorTask)
		broken string
	}{
		"a restart that replaces nothing":    {v1alpha1.QuorumAwareRollout, "restart: true", succeeds, "pod main-0 is older"},
		"a rollout that finds nothing to do": {v1alpha1.QuorumAwareRollout, "", succeeds, ""},
		"a recreation that replaces nothing": {v1alpha1.RecreateRollout, "", succeeds, "pod main-0 is older"},
		"maintenance that calls nothing":     {v1alpha1.OnDemandMaintenance, "", succeeds, "nothing was compacted"},
		"maintenance that only compacts":     {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) { succeeds(w, t); w.compacted["main"] = w.Now() }, "main-0 was not defragmented"},
		"maintenance": {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			succeeds(w, t)
			w.compacted["main"] = w.Now()
			for i := range 3 {
				w.defragmented[fmt.Sprintf("main-%d", i)] = w.Now()
			}
		}, ""},
		"a Restore that does nothing": {v1alpha1.Restore, "{to: {revision: 3}, confirm: it}", succeeds, "no cluster has begun that it has made"},
		"a preview":                   {v1alpha1.Restore, "{to: {revision: 3}}", succeeds, ""},
		"a Restore": {v1alpha1.Restore, "{undo: another}", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			succeeds(w, t)
			w.judges[0].past = append(w.judges[0].past, lineage{task: t.UID})
		}, ""},
		"a recovery without a leader": {v1alpha1.QuorumLossRecovery, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			succeeds(w, t)
			w.judges[0].quorate = since{false, time.Second}
		}, "no member has led since"},
		"a change of members to another size": {v1alpha1.MembershipChange, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			succeeds(w, t)
			t.Status.Membership = &v1alpha1.MembershipStatus{Size: 5}
		}, "3 members are listed, and not 5"},
		"a change of members to this size": {v1alpha1.MembershipChange, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			succeeds(w, t)
			t.Status.Membership = &v1alpha1.MembershipStatus{Size: 3}
		}, ""},
		"what always fails":                     {v1alpha1.OnDemandMaintenance, "", fails, "neither a fault nor a user has come between"},
		"what fails while a fault goes on":      {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) { fails(w, t); w.faults.going++ }, ""},
		"what fails after a fault":              {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) { fails(w, t); w.faults.injected["conflict"]++ }, ""},
		"what fails after a user did something": {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) { fails(w, t); w.Log("user", "does something") }, ""},
		"a recovery that is not needed":         {v1alpha1.QuorumLossRecovery, "", rejected(v1alpha1.ErrQuorumNotLost), ""},
		"one that fails":                        {v1alpha1.QuorumLossRecovery, "", fails, "neither a fault nor a user has come between"},
		"the second of two of a kind": {v1alpha1.OnDemandMaintenance, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			w.judges[0].Task("another", t.Spec.Type, "")
			w.acts -= 1
			rejected(v1alpha1.ErrDuplicateTask)(w, t)
		}, ""},
		"a second one of two, of one":      {v1alpha1.OnDemandMaintenance, "", rejected(v1alpha1.ErrDuplicateTask), "neither a fault nor a user has come between"},
		"a Restore beside an outdated pod": {v1alpha1.Restore, "{to: {revision: 3}}", rejected(v1alpha1.ErrRestoreRefused), ""},
		"never served, although its pod has led": {v1alpha1.QuorumLossRecovery, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			w.judges[0].servedFor = anEtcd(w).UID
			rejected(v1alpha1.ErrNeverServed)(w, t)
		}, "neither a fault nor a user has come between"},
		"never served, beside pods of an Etcd before": {v1alpha1.QuorumLossRecovery, "", func(w *World, t *v1alpha1.EtcdOperatorTask) {
			anEtcd(w)
			rejected(v1alpha1.ErrNeverServed)(w, t)
		}, ""},
		"no quorum, where there is one": {v1alpha1.OnDemandMaintenance, "", rejected(v1alpha1.ErrNoQuorum), "neither a fault nor a user has come between"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := threeServing(t)
				w.operators = []*operator{{world: w, actor: &loop.Actor{}, dead: true}} // it follows nothing
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "main"}}
				set.Spec.Template.Labels = map[string]string{"app": "etcd"}
				w.must(w.writer.Create(t.Context(), set))
				w.must(w.writer.Create(t.Context(), podOf(set, 0, "1")))
				<-time.After(2 * time.Minute)
				w.judges[0].Task("task", test.of, test.config)
				<-time.After(time.Minute)
				ended := apiserver.Find[*v1alpha1.EtcdOperatorTask](w.API.Live(), Namespace, "task").DeepCopy()
				test.ends(w, ended)
				w.must(w.API.Edit(ended, "status"))
				if got := strings.Join(w.Broken, "; "); got == "" != (test.broken == "") || !strings.Contains(got, test.broken) {
					t.Errorf("says %q, and not %q", got, test.broken)
				}
				w.Close()
			})
		})
	}
}

// anEtcd creates the Etcd of the first judge.
func anEtcd(w *World) *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "main"}}
	w.must(w.writer.Create(context.Background(), e))
	w.acts--
	return e
}

// A recovery stops members only once there has been no quorum for half a minute, as far as an operator could see.
func TestARecoveryThatDoesNotWait(t *testing.T) {
	for name, test := range map[string]struct {
		before       v1alpha1.RecoveryPhase
		lost, served time.Duration
		cut, broken  bool
	}{
		"at once":                        {"", 3 * time.Second, time.Minute, false, true},
		"soon":                           {v1alpha1.RecoveryConfirming, 15 * time.Second, time.Minute, false, true},
		"after half a minute":            {v1alpha1.RecoveryConfirming, 30 * time.Second, time.Minute, false, false},
		"once more":                      {v1alpha1.RecoverySurveying, 3 * time.Second, time.Minute, false, false},
		"a quorum that served shortly":   {v1alpha1.RecoveryConfirming, 3 * time.Second, 2 * time.Second, false, false},
		"a quorum out of sight, perhaps": {v1alpha1.RecoveryConfirming, 3 * time.Second, time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := threeServing(t)
				w.judges[0].Task("task", v1alpha1.QuorumLossRecovery, "")
				w.nodes[0].cut = test.cut
				for _, phase := range []v1alpha1.RecoveryPhase{test.before, v1alpha1.RecoveryStopping} {
					w.judges[0].quorate, w.judges[0].served = since{false, w.Now() - test.lost}, test.served
					edit(w, Namespace, "task", "status", func(t *v1alpha1.EtcdOperatorTask) { t.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: phase} })
				}
				if got := strings.Join(w.Broken, "; "); (got != "") != test.broken {
					t.Errorf("says %q", got)
				}
				w.Close()
			})
		})
	}
}
