// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// What a policy says, and the defaults of one that was written past the API server's.
func TestReadPolicies(t *testing.T) {
	window := v1alpha1.FleetWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}
	p := read(&v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 3}})
	if p.Name != "p" || p.UID != "u" || p.Generation != 3 || p.Invalid != "" || p.MaxConcurrent != 10 || !p.Percent || p.Soak != 5*time.Minute || p.Canary.Count != 1 || p.Canary.Soak != 5*time.Minute || p.Paused || p.PauseAtEnd || p.MaxFailures != 0 {
		t.Errorf("%+v", p)
	}
	o := &v1alpha1.EtcdFleetPolicy{}
	o.Spec.Soak, o.Spec.Canary.Soak, o.Spec.Canary.Count = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}, ptr.To(int32(4))
	o.Spec.Paused, o.Spec.MaxFailures, o.Spec.MaxConcurrent, o.Spec.AtEnd = true, 2, ptr.To(intstr.FromInt32(7)), v1alpha1.FleetPause
	o.Spec.Windows, o.Spec.Except = []v1alpha1.FleetWindow{window}, []v1alpha1.FleetWindow{window, window}
	o.Spec.MaxPerNamespace = ptr.To(intstr.FromString("60%"))
	p = read(o)
	if p.PerNamespace != 60 || !p.PerNamespacePercent || p.Invalid != "" || p.MaxConcurrent != 7 || p.Percent || p.Soak != time.Minute || p.Canary.Soak != time.Hour || p.Canary.Count != 4 || !p.Paused || !p.PauseAtEnd || p.MaxFailures != 2 || len(p.Windows) != 1 || len(p.Except) != 2 {
		t.Errorf("%+v", p)
	}
	bad := window
	bad.TimeZone = "Nowhere"
	for says, change := range map[string]func(*v1alpha1.EtcdFleetPolicySpec){
		`spec.maxConcurrent: "many" is neither`:  func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxConcurrent = ptr.To(intstr.FromString("many")) },
		`spec.maxPerNamespace: "all" is neither`: func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxPerNamespace = ptr.To(intstr.FromString("all")) },
		`spec.maxPerNamespace: 0 is less than 1`: func(s *v1alpha1.EtcdFleetPolicySpec) { s.MaxPerNamespace = ptr.To(intstr.FromInt32(0)) },
		`spec.windows[1]: timeZone "Nowhere"`:    func(s *v1alpha1.EtcdFleetPolicySpec) { s.Windows = []v1alpha1.FleetWindow{window, bad} },
		`spec.except[0]: timeZone "Nowhere"`:     func(s *v1alpha1.EtcdFleetPolicySpec) { s.Except = []v1alpha1.FleetWindow{bad, window} },
	} {
		o := &v1alpha1.EtcdFleetPolicy{}
		change(&o.Spec)
		if p := read(o); !strings.HasPrefix(p.Invalid, says) || len(p.Windows) > 1 || len(p.Except) > 1 {
			t.Errorf("%s: %+v", says, p)
		}
	}
}

// An Etcd of which nothing is known yet lacks no member, nor does one that hibernates; any other does unless it is known that it does not.
func TestWhoLacksAMember(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Etcd)
		lacks  bool
	}{
		"it is well":   {func(*v1alpha1.Etcd) {}, false},
		"it lacks one": {set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse), true},
		"it may":       {set(v1alpha1.ConditionAllMembersReady, metav1.ConditionUnknown), true},
		"no condition": {func(e *v1alpha1.Etcd) { e.Status.Conditions = nil }, false},
		"it hibernates": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Spec.Replicas = 0
		}, false},
		"it is new": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Status.ClusterID = ""
		}, false},
		"it is not, as its status": {func(e *v1alpha1.Etcd) {
			set(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse)(e)
			e.Status.ClusterID, e.Status.Members = "", []v1alpha1.Member{{}}
		}, true},
	} {
		_, etcd, _ := newWorld(t, 0, 1).objects(0)
		c.change(etcd)
		if got := lacksMember(etcd); (got != nil) != c.lacks || got != nil && (got.Etcd != "etcd0" || got.Namespace != "ns0" || got.Recovering) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Tasks that have ended, or end, need no slot, nor do those of namespaces that nothing covers; a view that shows nothing has none.
func TestWhatAViewShows(t *testing.T) {
	w := newWorld(t, 4, 1)
	ending := w.task(1).Object
	ending.Finalizers = []string{"example.com/keep"}
	if err := errors.Join(w.api.Update(t.Context(), ending), w.api.Delete(t.Context(), ending)); err != nil {
		t.Fatal(err)
	}
	ended := w.task(2).Object
	ended.Status.State = v1alpha1.TaskStateFailed
	if err := w.api.Status().Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	w.labeled(3, map[string]string{"tier": "other"})
	w.policy(func(p *v1alpha1.EtcdFleetPolicy) {
		p.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}
	})
	o := w.operator()
	v, err := o.look(t.Context())
	if err != nil || len(v.tasks) != 1 || v.tasks["task0"] == nil || len(v.etcds) != 3 || v.policies["all"].Clusters != 3 {
		t.Errorf("%+v %v", v, err)
	}
	if again, err := o.look(t.Context()); err != nil || again != v {
		t.Errorf("%v: it is looked at again", err)
	}
	w.clock.Step(maxAge - 1)
	if again, err := o.look(t.Context()); err != nil || again != v {
		t.Errorf("%v: it is looked at again", err)
	}
	w.clock.Step(1)
	if again, err := o.look(t.Context()); err != nil || again == v {
		t.Errorf("%v: it is old", err)
	}
	w.clock.SetTime(w.clock.Now().Add(-time.Minute))
	v, _ = o.look(t.Context())
	if again, err := o.look(t.Context()); err != nil || again != v || !v.at.Equal(w.clock.Now()) {
		t.Errorf("%v: the clock has gone back", err)
	}
	w.mayStart(o.ask(3))
	var none *view
	if none.asks(w.task(0).Object) || none.knows(w.read()) {
		t.Error("there is nothing")
	}
	if !v.knows(w.read()) || !v.decidesBy(w.read(), "ns0") || v.decidesBy(w.read(), "ns3") {
		t.Error("it is known")
	}
	for _, change := range []func(*v1alpha1.EtcdFleetPolicy){
		func(p *v1alpha1.EtcdFleetPolicy) { p.Name = "other" }, func(p *v1alpha1.EtcdFleetPolicy) { p.UID = "other" }, func(p *v1alpha1.EtcdFleetPolicy) { p.Generation++ },
	} {
		p := w.read()
		if change(p); v.knows(p) {
			t.Errorf("%+v is another", p)
		}
	}
}

// Policies are asked in the order of their names, in whatever order a cache lists them: the first that orders says by which label.
func TestTheOrderOfPolicies(t *testing.T) {
	w := newWorld(t, 1, 1)
	for name, key := range map[string]string{"b": "second", "a": "", "c": "third"} {
		p := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		p.Spec.OrderBy = key
		if err := w.api.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	o := w.operator()
	o.Client = interceptor.NewClient(o.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if policies, ok := list.(*v1alpha1.EtcdFleetPolicyList); ok {
				slices.Reverse(policies.Items)
			}
			return err
		},
	})
	v, err := o.look(t.Context())
	if err != nil || !slices.Equal(v.covering["ns0"], []string{"a", "all", "b", "c"}) || v.orderBy("ns0") != "second" || v.orderBy("elsewhere") != "" {
		t.Errorf("%v %v %q", err, v.covering, v.orderBy("ns0"))
	}
}

// A cluster is being recovered while the task that does it runs, and changes its members while that task does; a task that no Etcd owns yet
// says nothing of one.
func TestWhichClustersAreRecoveredOrChange(t *testing.T) {
	for name, c := range map[string]struct {
		taskType             v1alpha1.TaskType
		state                v1alpha1.TaskState
		owned                bool
		recovering, changing bool
	}{
		"a recovery":              {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStateInProgress, true, true, false},
		"one that waits":          {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStatePending, true, false, false},
		"one without an owner":    {v1alpha1.QuorumLossRecovery, v1alpha1.TaskStateInProgress, false, false, false},
		"a Restore, at first":     {v1alpha1.Restore, v1alpha1.TaskStateInProgress, true, false, false},
		"one that replaces data":  {v1alpha1.Restore, v1alpha1.TaskStateInProgress, true, true, true},
		"one that did":            {v1alpha1.Restore, v1alpha1.TaskStateSucceeded, true, false, false},
		"a change of members":     {v1alpha1.MembershipChange, v1alpha1.TaskStateInProgress, true, false, true},
		"one that has yet to run": {v1alpha1.MembershipChange, v1alpha1.TaskStatePending, true, false, false},
		"maintenance":             {v1alpha1.OnDemandMaintenance, v1alpha1.TaskStateInProgress, true, false, false},
	} {
		w := newWorld(t, 1, 1)
		task := w.task(0).Object
		task.Spec.Type = c.taskType
		if !c.owned {
			task.OwnerReferences = nil
		}
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		task = w.task(0).Object
		task.Status.State, task.Status.InitiatedAt = c.state, &metav1.Time{Time: w.clock.Now()}
		if c.taskType == v1alpha1.Restore && name != "a Restore, at first" {
			task.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryFencing}
		}
		if err := w.api.Status().Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		v, err := w.operator().look(t.Context())
		if err != nil || (len(v.impaired) == 1) != c.recovering || (v.changing["etcd0"] != "") != c.changing {
			t.Errorf("%s: %v %+v %v", name, err, v.impaired, v.changing)
		}
		if c.recovering && !v.impaired[0].Since.Equal(w.clock.Now()) {
			t.Errorf("%s: %+v", name, v.impaired)
		}
	}
}

// The owner of a task is the Etcd that it names, and no object of another kind that is called like it: a tenant may write the UID of someone
// else's Etcd there, whose canary would never be watched for long enough.
func TestWhoOwnsATask(t *testing.T) {
	w := newWorld(t, 2, 2)
	owner := func(version, kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid}
	}
	own := v1alpha1.GroupVersion.String()
	theirs := []metav1.OwnerReference{owner("v1", "ConfigMap", "main", "etcd1"), owner(own, v1alpha1.KindEtcd, "other", "etcd1"), owner("evil/v1", v1alpha1.KindEtcd, "main", "etcd1"), owner("a/b/c", v1alpha1.KindEtcd, "main", "etcd1")}
	for want, owners := range map[types.UID][]metav1.OwnerReference{
		"":      theirs,
		"etcd0": append(slices.Clone(theirs), owner(own, v1alpha1.KindEtcd, "main", "etcd0")),
		"newer": {owner(v1alpha1.GroupVersion.Group+"/v2", v1alpha1.KindEtcd, "main", "newer")},
	} {
		task := w.task(0).Object
		if task.OwnerReferences = owners; etcdOf(task) != want {
			t.Errorf("%q, want %q", etcdOf(task), want)
		}
		task.Spec.Type = v1alpha1.MembershipChange
		if err := w.api.Update(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if err := w.begin(w.task(0)); err != nil {
			t.Fatal(err)
		}
		if v, err := w.operator().look(t.Context()); err != nil || v.changing["etcd1"] != "" || want != "" && v.changing[want] == "" {
			t.Errorf("%v %v, want that of %q", err, v.changing, want)
		}
	}
}

// A recovery that runs may not say since when.
func TestARecoveryThatDoesNotSaySinceWhen(t *testing.T) {
	w := newWorld(t, 1, 1)
	task := w.task(0).Object
	task.Spec.Type, task.Status.State = v1alpha1.QuorumLossRecovery, v1alpha1.TaskStateInProgress
	status := task.Status
	if err := w.api.Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	task.Status = status
	if err := w.api.Status().Update(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	o := w.operator()
	o.pass(interval)
	if used := w.read().Status.Used; used != 1 {
		t.Errorf("%d slots are used", used)
	}
}
