// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// part returns the task of an Etcd with change A, at these seconds; one that is negative has not come.
func part(namespace, name string, state v1alpha1.TaskState, created, started, ended float64) v1alpha1.EtcdOperatorTask {
	t := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Time{Time: at(created)}}}
	t.Spec.OwnerEtcdReference.Name = "main"
	t.Status.State, t.Status.Change = state, "A"
	if started >= 0 {
		t.Status.InitiatedAt = &metav1.Time{Time: at(started)}
	}
	if ended >= 0 {
		t.Status.CompletedAt = &metav1.Time{Time: at(ended)}
	}
	return t
}

// shown draws a chart in characters, and checks its picture.
func shown(t *testing.T, c Chart) string {
	t.Helper()
	var picture bytes.Buffer
	if err := c.Write(&picture); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"NaN", "ZgotmplZ", ">leader<", ">writes<", ">no pod<", `class=""`} {
		if strings.Contains(picture.String(), wrong) {
			t.Errorf("the picture has %s", wrong)
		}
	}
	return strings.Join(c.Text(80), "\n") + "\n"
}

// A change goes through Etcds: to a canary, which is watched, then to others, of which one fails while it is watched and one is tried
// again. What has another change, and what ended before this one began, is not shown.
func TestOfChange(t *testing.T) {
	watched := metav1.Time{Time: at(80)}
	policy := v1alpha1.EtcdFleetPolicy{}
	policy.Status.Holders = []v1alpha1.FleetHolder{{Namespace: "shoot--project--long", Etcd: "main", Change: "A", WatchedSince: &watched}, {Namespace: "b", Etcd: "main", Change: "B", WatchedSince: &watched}}
	policy.Status.Changes = []v1alpha1.FleetChange{
		{Change: "A", Since: metav1.Time{Time: at(5)}, Watched: 1, Failed: 1, Failures: []v1alpha1.FleetFailure{{Namespace: "c", Etcd: "main", Reason: "a member restarted", At: metav1.Time{Time: at(85)}}}},
		{Change: "B", Since: metav1.Time{Time: at(90)}, Failures: []v1alpha1.FleetFailure{{Namespace: "b", Etcd: "main", Reason: "another", At: metav1.Time{Time: at(85)}}}},
	}
	other := part("z", "other", v1alpha1.TaskStateSucceeded, 0, 6, 7)
	other.Status.Change = "B"
	tasks := []v1alpha1.EtcdOperatorTask{
		part("e", "waits", v1alpha1.TaskStatePending, 0, -1, -1),
		part("d", "again", v1alpha1.TaskStateInProgress, 75, 90, -1),
		part("shoot--project--long", "1", v1alpha1.TaskStateSucceeded, 0, 62, 80),
		part("c", "1", v1alpha1.TaskStateSucceeded, 0, 60, 75),
		part("d", "first", v1alpha1.TaskStateRejected, 0, -1, 70),
		part("b", "1", v1alpha1.TaskStateSucceeded, 0, 61, 77),
		part("a", "canary", v1alpha1.TaskStateSucceeded, 0, 10, 30),
		part("a", "earlier", v1alpha1.TaskStateSucceeded, -100, -100, 4),
		other,
	}
	chart, ok := OfChange("A", tasks, []v1alpha1.EtcdFleetPolicy{policy}, at(100))
	if !ok {
		t.Fatal("there are tasks with it")
	}
	golden.Check(t, "change.txt", []byte(shown(t, chart)))
	if chart.Runs[0].Good {
		t.Error("it failed in one")
	}
	if _, ok := OfChange("C", tasks, nil, at(100)); ok {
		t.Error("no task has it")
	}
}

// Statuses of policies list so many clusters and no more. What they do not list is not claimed to be done, and the summary says so.
func TestWhatPoliciesDoNotList(t *testing.T) {
	tasks := []v1alpha1.EtcdOperatorTask{part("a", "1", v1alpha1.TaskStateSucceeded, 0, 1, 20), part("b", "1", v1alpha1.TaskStateSucceeded, 0, 1, 20)}
	watched := metav1.Time{Time: at(20)}
	const all, part = "1 watched, 1 succeeded · 30 s", "1 watched, 1 succeeded · not all that are watched or failed are known · 30 s"
	for name, c := range map[string]struct {
		changes []v1alpha1.FleetChange
		want    string
	}{
		"all are listed":                  {[]v1alpha1.FleetChange{{Change: "A", Watched: 1}}, all},
		"more are watched":                {[]v1alpha1.FleetChange{{Change: "A", Watched: 2}}, part},
		"more have failed":                {[]v1alpha1.FleetChange{{Change: "A", Watched: 1, Failed: 1}}, part},
		"of another change, more are":     {[]v1alpha1.FleetChange{{Change: "B", Watched: 9, Failed: 9}, {Change: "A", Watched: 1}}, all},
		"the change itself is not listed": {[]v1alpha1.FleetChange{{Change: "B"}}, part},
	} {
		policy := v1alpha1.EtcdFleetPolicy{}
		policy.Status.Holders = []v1alpha1.FleetHolder{{Namespace: "a", Etcd: "main", Change: "A", WatchedSince: &watched}, {Namespace: "c", Etcd: "main", Change: "A"}, {Namespace: "d", Etcd: "main", Change: "B", WatchedSince: &watched}}
		policy.Status.Changes = c.changes
		if chart, ok := OfChange("A", tasks, []v1alpha1.EtcdFleetPolicy{policy}, at(30)); !ok || chart.Runs[0].Summary != c.want {
			t.Errorf("%s: %q, want %q", name, chart.Runs[0].Summary, c.want)
		}
	}
}

// A change that has ended is drawn until it ended, and a little further, so that the end is seen.
func TestOfChangeThatHasEnded(t *testing.T) {
	tasks := []v1alpha1.EtcdOperatorTask{
		part("a", "1", v1alpha1.TaskStateSucceeded, 0, 1, 20), part("b", "1", v1alpha1.TaskStateFailed, 0, 21, 40), part("c", "1", v1alpha1.TaskStateRejected, 0, -1, 30),
	}
	policy := v1alpha1.EtcdFleetPolicy{}
	policy.Status.Changes = []v1alpha1.FleetChange{{Change: "A"}}
	chart, _ := OfChange("A", tasks, []v1alpha1.EtcdFleetPolicy{policy}, at(1e6))
	golden.Check(t, "change-ended.txt", []byte(shown(t, chart)))
	if until := chart.Runs[0].Until; until != at(43) || !chart.Runs[0].Good {
		t.Errorf("until %s", until)
	}
	if chart, _ = OfChange("A", tasks, nil, at(41)); chart.Runs[0].Until != at(41) {
		t.Errorf("until %s", chart.Runs[0].Until)
	}
}

func TestNamesOfLanesFit(t *testing.T) {
	for name, want := range map[string]string{"etcd-main-0": "etcd-main-0", "shoot--project--long/etcd-main": "…-long/etcd-main"} {
		if got := tail(name); got != want {
			t.Errorf("tail(%q) = %q, want %q", name, got, want)
		}
	}
}
