// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// status is a line of the audit log: at a second, the kubelet writes the status of a pod. An ended etcd has restarted, a dead
// one has not yet.
func status(at int, pod, uid, etcd string) string {
	state := `"state":{"running":{}}`
	if ended, found := strings.CutPrefix(etcd, "ended at "); found {
		state = fmt.Sprintf(`"state":{"running":{}},"lastState":{"terminated":{"exitCode":137,"reason":"Error","finishedAt":"2026-01-01T12:00:%sZ"}}`, ended)
	} else if ended, found := strings.CutPrefix(etcd, "dead at "); found {
		state = fmt.Sprintf(`"state":{"terminated":{"exitCode":137,"reason":"Error","finishedAt":"2026-01-01T12:00:%sZ"}}`, ended)
	}
	body := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"containerStatuses":[{"name":"backup-restore","state":{},"lastState":{"terminated":{"finishedAt":"2026-01-01T12:00:21Z"}}},{"name":"etcd",%s}]}}`, uid, state)
	text := line("patch", "pods/status", pod, body, 200)
	text = strings.Replace(text, operator, "system:node:local", 1)
	return strings.Replace(text, "12:00:20.5Z", fmt.Sprintf("12:00:%02dZ", at), 1)
}

func withUID(a Act, uid string) Act {
	a.UID = uid
	return a
}

func TestPromises(t *testing.T) {
	there := status(1, "main-0", "uid-0", "")
	raise := update(20, Keeps, "main-0")
	unnamed := raise
	unnamed.UID = ""
	fault := func(from, to float64, change func(*Fault)) []Fault {
		f := Fault{From: seconds(from), To: seconds(to), Kind: "killed", Target: "main-0", Evidence: "it was", EndsEtcd: true}
		if change != nil {
			change(&f)
		}
		return []Fault{f}
	}
	killed := there + status(25, "main-0", "uid-0", "ended at 23")
	for name, test := range map[string]struct {
		log    string
		acts   []Act
		faults []Fault
		want   Verdict
	}{
		"etcd keeps running":                        {log: there + status(25, "main-0", "uid-0", ""), want: Safe},
		"etcd restarts":                             {log: killed, want: Unsafe},
		"etcd restarts, and the act names no UID":   {log: killed, acts: []Act{unnamed}, want: Unsafe},
		"etcd ends":                                 {log: there + status(25, "main-0", "uid-0", "dead at 23"), want: Unsafe},
		"etcd ends in the second of the update":     {log: there + status(25, "main-0", "uid-0", "ended at 20"), want: Unsafe},
		"etcd had restarted before":                 {log: there + status(10, "main-0", "uid-0", "ended at 05") + status(25, "main-0", "uid-0", "ended at 05"), want: Safe},
		"the etcd of another pod restarts":          {log: there + status(25, "main-1", "uid-1", "ended at 23"), want: Safe},
		"the etcd of a pod before restarted":        {log: status(1, "main-0", "old", "") + there + status(25, "main-0", "old", "ended at 23"), want: Safe},
		"the kubelet reports nothing":               {want: Unjudged},
		"the kubelet reports of a pod before":       {log: status(1, "main-0", "old", ""), want: Unjudged},
		"a fault ends it":                           {log: killed, faults: fault(22.9, 23.8, nil), want: Safe},
		"a fault ends it late in the second":        {log: killed, faults: fault(23.9, 24.8, nil), want: Safe},
		"a fault that was not in effect":            {log: killed, faults: fault(22.9, 23.8, func(f *Fault) { f.Evidence = "" }), want: Unsafe},
		"a fault of another member":                 {log: killed, faults: fault(22.9, 23.8, func(f *Fault) { f.Target = "main-1" }), want: Unsafe},
		"a fault that ends no etcd":                 {log: killed, faults: fault(22.9, 23.8, func(f *Fault) { f.EndsEtcd = false }), want: Unsafe},
		"a fault that was over":                     {log: killed, faults: fault(20, 22, nil), want: Unsafe},
		"a fault that came later":                   {log: killed, faults: fault(24.5, 26, nil), want: Unsafe},
		"somebody deletes the pod":                  {log: killed, acts: []Act{raise, byOther(act(21, DeletePod, "main-0"))}, want: Safe},
		"somebody deletes another":                  {log: killed, acts: []Act{raise, byOther(act(21, DeletePod, "main-1"))}, want: Unsafe},
		"somebody deletes it later":                 {log: killed, acts: []Act{raise, byOther(act(25, DeletePod, "main-0"))}, want: Unsafe},
		"somebody deletes the pod before":           {log: killed, acts: []Act{raise, withUID(byOther(act(21, DeletePod, "main-0")), "old")}, want: Unsafe},
		"the next pod, and an act without UID":      {log: there + status(22, "main-0", "new", "") + status(23, "main-0", "uid-0", "ended at 21"), acts: []Act{unnamed}, want: Unsafe},
		"a lowering of which nothing is known":      {acts: []Act{update(20, Lowers, "main-0")}, want: Safe},
		"somebody had deleted the pod before":       {log: strings.Replace(killed, "12:00:01Z", "12:00:15Z", 1), acts: []Act{byOther(act(10, DeletePod, "main-0")), raise}, want: Unsafe},
		"another update restarts etcd":              {log: killed, acts: []Act{raise, update(22, Restarts, "main-0")}, want: Safe},
		"another update keeps etcd running as well": {log: killed, acts: []Act{raise, update(22, Keeps, "main-0")}, want: Unsafe},
		"a lowering":                                {log: killed, acts: []Act{update(20, Lowers, "main-0")}, want: Safe},
	} {
		t.Run(name, func(t *testing.T) {
			_, containers, err := Read(strings.NewReader(test.log), cluster)
			if err != nil {
				t.Fatal(err)
			}
			acts := test.acts
			if acts == nil {
				acts = []Act{raise}
			}
			cluster := cluster
			cluster.Members = 3
			judged := Promises(Judge(cluster, acts, containers, record(always()), nil), acts, containers, test.faults)
			if judged[0].Verdict != test.want {
				t.Errorf("%v, want %s", judged[0], test.want)
			}
		})
	}
}

// What restarted etcd explains its end for a minute: an update of long ago does not.
func TestAnUpdateExplainsForAMinute(t *testing.T) {
	_, containers, err := Read(strings.NewReader(status(1, "main-0", "uid-0", "")+status(50, "main-0", "uid-0", "ended at 49")), cluster)
	if err != nil {
		t.Fatal(err)
	}
	containers.pods[0].since = -2 * time.Minute
	raise := update(40, Keeps, "main-0")
	for at, want := range map[float64]Verdict{-12: Unsafe, -11: Safe} {
		acts := []Act{update(at, Lowers, "main-0"), raise}
		if got := Promises([]Judgement{{raise, Safe, ""}}, acts, containers, nil)[0].Verdict; got != want {
			t.Errorf("a lowering at %g: %s, want %s", at, got, want)
		}
	}
}

// Long after an update, etcd may end for other reasons.
func TestAPromiseLastsAMinute(t *testing.T) {
	_, containers, err := Read(strings.NewReader(status(1, "main-0", "uid-0", "")+status(50, "main-0", "uid-0", "ended at 49")), cluster)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]Verdict{-12 * time.Second: Safe, -11 * time.Second: Unsafe} {
		a := Act{At: at, User: operator, Kind: UpdatePod, Effect: Keeps, Pods: []string{"main-0"}}
		containers.pods[0].since = -time.Minute
		if got := Promises([]Judgement{{a, Safe, ""}}, []Act{a}, containers, nil)[0].Verdict; got != want {
			t.Errorf("%s before: %s, want %s", at, got, want)
		}
	}
}
