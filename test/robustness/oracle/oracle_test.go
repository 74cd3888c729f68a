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

const operator = "system:serviceaccount:etcd-foreman-system:etcd-foreman"

var cluster = Cluster{Namespace: "robustness", Name: "main", Operator: operator, Began: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}

// life is what a member does from a second on.
type life struct {
	from float64
	// mode: serves, leaderless (answers, and knows no leader), catchesUp (serves, but has applied less than the leader), silent, or
	// gone (there is no pod).
	mode string
	uid  string
	// lacks is how many entries it has not applied.
	lacks uint64
}

func serving(from float64) life    { return life{from: from, mode: "serves"} }
func silent(from float64) life     { return life{from: from, mode: "silent"} }
func leaderless(from float64) life { return life{from: from, mode: "leaderless"} }

// catchesUp is a member that is back, knows the leader, and lacks entries.
func catchesUp(lacks uint64) life { return life{from: 18, mode: "catchesUp", lacks: lacks} }

// again is a pod that serves with a new UID.
func again(from float64) life { return life{from: from, mode: "serves", uid: "new"} }

// always is three members that serve.
func always() [][]life { return [][]life{{serving(0)}, {serving(0)}, {serving(0)}} }

// record samples lives 10 times a second for a minute. All are voters, but the learners.
func record(lives [][]life, learners ...int) []Sample {
	var voters []uint64
	for i := range lives {
		voters = append(voters, uint64(i+1))
	}
	for _, l := range learners {
		voters = voters[:l]
	}
	var all []Sample
	for at := time.Duration(0); at < time.Minute; at += 100 * time.Millisecond {
		for i, stages := range lives {
			now := life{mode: "gone"}
			for _, stage := range stages {
				if seconds(stage.from) <= at {
					now = stage
				}
			}
			if now.mode == "gone" {
				continue
			}
			s := Sample{At: at, Pod: fmt.Sprintf("main-%d", i), UID: fmt.Sprintf("uid-%d%s", i, now.uid)}
			if s.Answered = now.mode != "silent"; s.Answered {
				s.Member, s.Term, s.Voters = uint64(i+1), 2, voters
			}
			if now.mode == "serves" || now.mode == "catchesUp" {
				s.Leader, s.Committed, s.Applied = 1, 9000, 9000-now.lacks
			}
			all = append(all, s)
		}
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func act(at float64, kind Kind, pods ...string) Act {
	return Act{At: seconds(at), User: operator, Kind: kind, Name: strings.Join(pods, ","), Pods: pods}
}

func byOther(a Act) Act {
	a.User = "system:admin"
	return a
}

// running is what the kubelet reports of three pods whose etcd runs.
func running() string {
	log := ""
	for i := range 3 {
		log += status(1, fmt.Sprintf("main-%d", i), fmt.Sprintf("uid-%d", i), "")
	}
	return log
}

func stop(at float64) Act { return act(at, ScaleSet, beyond("main", 0)...) }

func TestJudge(t *testing.T) {
	recreate := []Outage{{From: seconds(10), To: seconds(50), What: "recreate"}}
	hibernate := []Outage{{From: seconds(10), To: seconds(50), What: "hibernation", Claims: true}}
	recovery := []Outage{{From: seconds(10), To: seconds(50), What: "recovery", OnlyIfLost: true}}
	for name, test := range map[string]struct {
		lives    [][]life
		learners []int
		acts     []Act
		outages  []Outage
		// log is what the kubelet reports.
		log  string
		want []Verdict
	}{
		"one of three": {lives: always(), acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Safe}},
		"one after another, each back before the next": {
			lives: [][]life{{serving(0), silent(20), again(22)}, {serving(0), silent(24), again(26)}, {serving(0), silent(28), again(30)}},
			acts:  []Act{act(20, DeletePod, "main-0"), act(24, DeletePod, "main-1"), act(28, EvictPod, "main-2")},
			want:  []Verdict{Safe, Safe, Safe},
		},
		"two at once": {
			lives: always(), acts: []Act{act(20, DeletePod, "main-0"), act(20.1, DeletePod, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"the second before the first is back": {
			lives: [][]life{{serving(0), silent(20), again(27)}, {serving(0)}, {serving(0)}},
			acts:  []Act{act(20, DeletePod, "main-0"), act(26, EvictPod, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"the first still terminates and serves": {
			lives: always(), acts: []Act{act(20, EvictPod, "main-0"), act(24, UpdatePod, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"while another has been down": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0)}, {serving(0)}}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"the one that is down": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0)}, {serving(0)}}, acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Safe},
		},
		"one that never answered": {
			lives: [][]life{{silent(0)}, {serving(0)}, {serving(0)}, {serving(0)}}, learners: []int{3}, acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Safe},
		},
		"another died a moment before": {
			lives: [][]life{{serving(0), silent(18)}, {serving(0)}, {serving(0)}}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Race},
		},
		"somebody else deleted another a moment before": {
			lives: always(), acts: []Act{byOther(act(19, DeletePod, "main-0")), act(20, DeletePod, "main-1")}, want: []Verdict{Race},
		},
		"somebody else deleted another that has been terminating": {
			lives: always(), acts: []Act{byOther(act(10, DeletePod, "main-0")), act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"somebody else deleted another that is back": {
			lives: [][]life{{serving(0), silent(10), again(14)}, {serving(0)}, {serving(0)}},
			acts:  []Act{byOther(act(10, DeletePod, "main-0")), act(20, DeletePod, "main-1")}, want: []Verdict{Safe},
		},
		"a learner is no voter": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}}, learners: []int{2}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"three voters of which one is down, and a learner": {
			lives:    [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(10)}, {serving(0)}},
			learners: []int{3}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"the learner": {
			lives:    [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(10)}, {serving(0)}},
			learners: []int{3}, acts: []Act{act(20, DeletePod, "main-3")}, want: []Verdict{Safe},
		},
		"the operator sees one member that is cut off from the quorum": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), leaderless(5)}}, acts: []Act{act(50, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"the member that is cut off": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), leaderless(5)}}, acts: []Act{act(50, DeletePod, "main-2")}, want: []Verdict{Safe},
		},
		"a member that is back is far behind": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5), catchesUp(5001)}}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"a member that is back has nearly caught up": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5), catchesUp(5000)}}, acts: []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Safe},
		},
		"the one that is far behind": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5), catchesUp(5001)}}, acts: []Act{act(20, DeletePod, "main-2")}, want: []Verdict{Safe},
		},
		"behind a leader that was there long ago": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0)}, {serving(0), silent(5), catchesUp(5001)}}, acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Safe},
		},
		"a running member in an election": {
			lives: [][]life{{serving(0), silent(18)}, {serving(0), leaderless(18.5)}, {serving(0), leaderless(18.5)}},
			acts:  []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Race},
		},
		"a running member in an election, and one has been missing": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0), leaderless(18.5)}, {serving(0), leaderless(18.5)}},
			acts:  []Act{act(20, DeletePod, "main-1")}, want: []Verdict{Unsafe},
		},
		"during an election": {
			lives: [][]life{{serving(0), silent(18)}, {serving(0), leaderless(19), serving(20.5)}, {serving(0), leaderless(19), serving(20.5)}},
			acts:  []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Safe},
		},
		"a running member soon after the quorum was lost": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0), silent(10)}, {serving(0), leaderless(11)}},
			acts:  []Act{act(18, DeletePod, "main-2")}, want: []Verdict{Unsafe},
		},
		"a running member long after the quorum was lost": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0), silent(10)}, {serving(0), leaderless(11)}},
			acts:  []Act{act(45, DeletePod, "main-2")}, want: []Verdict{Broken},
		},
		"a dead member soon after the quorum was lost": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0), silent(10)}, {serving(0), leaderless(11)}},
			acts:  []Act{act(18, DeletePod, "main-0")}, want: []Verdict{Broken},
		},
		"one that is frozen, soon after the quorum was lost": {
			lives: [][]life{{serving(0), silent(20)}, {serving(0), silent(20)}, {serving(0), silent(20)}},
			acts:  []Act{act(25.5, DeletePod, "main-0")}, log: running(), want: []Verdict{Unsafe},
		},
		"one whose etcd has ended, soon after the quorum was lost": {
			lives: [][]life{{serving(0), silent(20)}, {serving(0), silent(20)}, {serving(0), silent(20)}},
			acts:  []Act{act(25.5, DeletePod, "main-0")}, log: running() + status(22, "main-0", "uid-0", "dead at 20"), want: []Verdict{Broken},
		},
		"one whose etcd has just ended, while another is replaced": {
			lives: [][]life{{serving(0), leaderless(18)}, {serving(0), silent(19)}, {serving(0), silent(16)}},
			acts:  []Act{act(16, DeletePod, "main-2"), act(21, DeletePod, "main-1")}, log: running() + status(20, "main-1", "uid-1", "dead at 19"), want: []Verdict{Safe, Broken},
		},
		"one whose etcd has just ended, and that is not reported": {
			lives: [][]life{{serving(0), leaderless(18)}, {serving(0), silent(19)}, {serving(0), silent(16)}},
			acts:  []Act{act(16, DeletePod, "main-2"), act(21, DeletePod, "main-1")}, log: running() + status(22, "main-1", "uid-1", "dead at 19"), want: []Verdict{Safe, Unsafe},
		},
		"one whose etcd has ended and runs again": {
			lives: [][]life{{serving(0)}, {serving(0), silent(19), serving(20.5)}, {serving(0), silent(16)}},
			acts:  []Act{act(16, DeletePod, "main-2"), act(21, DeletePod, "main-1")}, log: running() + status(20, "main-1", "uid-1", "dead at 19"), want: []Verdict{Safe, Unsafe},
		},
		"all that are frozen, long after the quorum was lost": {
			lives: [][]life{{serving(0), silent(20)}, {serving(0), silent(20)}, {serving(0), silent(20)}},
			acts:  []Act{act(35, DeletePod, "main-0"), act(35.1, DeletePod, "main-0"), act(36, DeletePod, "main-1"), act(56, DeletePod, "main-2")},
			log:   running(), want: []Verdict{Broken, Broken, Unsafe, Broken},
		},
		"all that are leaderless": {
			lives: [][]life{{serving(0), leaderless(20)}, {serving(0), leaderless(20)}, {serving(0), leaderless(20)}},
			acts:  []Act{act(35, DeletePod, "main-0"), act(35.1, EvictPod, "main-1")}, want: []Verdict{Broken, Unsafe},
		},
		"somebody else removes another in between": {
			lives: [][]life{{serving(0), leaderless(20)}, {serving(0), leaderless(20)}, {serving(0), leaderless(20)}},
			acts:  []Act{byOther(act(34, DeletePod, "main-0")), act(35.1, DeletePod, "main-1")}, want: []Verdict{Broken},
		},
		"all are stopped":               {lives: always(), acts: []Act{stop(20)}, want: []Verdict{Unsafe}},
		"the StatefulSet is deleted":    {lives: always(), acts: []Act{{At: seconds(20), User: operator, Kind: DeleteSet, Name: "main"}}, want: []Verdict{Unsafe}},
		"all pods are deleted":          {lives: always(), acts: []Act{act(20, DeletePodsOf)}, want: []Verdict{Unsafe}},
		"scaled to what there is":       {lives: always(), acts: []Act{act(20, ScaleSet, beyond("main", 3)...)}},
		"scaled down by one":            {lives: always(), acts: []Act{act(20, ScaleSet, beyond("main", 2)...)}, want: []Verdict{Safe}},
		"all are stopped as asked for":  {lives: always(), acts: []Act{stop(20)}, outages: recreate, want: []Verdict{Asked}},
		"all are stopped before":        {lives: always(), acts: []Act{stop(9)}, outages: recreate, want: []Verdict{Unsafe}},
		"one of one":                    {lives: [][]life{{serving(0)}}, acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Asked}},
		"somebody else does it":         {lives: always(), acts: []Act{byOther(stop(20))}},
		"a recovery that is not needed": {lives: always(), acts: []Act{stop(20)}, outages: recovery, want: []Verdict{Unsafe}},
		"a recovery while only one is up": {
			lives:   [][]life{{serving(0), silent(5)}, {serving(0), silent(5)}, {serving(0), leaderless(6)}},
			acts:    []Act{stop(35), act(40, DeletePod, "main-2")},
			outages: recovery, want: []Verdict{Asked, Asked},
		},
		"a recovery of a quorum that has just been lost": {
			lives:   [][]life{{serving(0), silent(9)}, {serving(0), silent(9)}, {serving(0), leaderless(10)}},
			acts:    []Act{stop(15)},
			outages: recovery, want: []Verdict{Unsafe},
		},
		"a recovery of a quorum that was lost 27 seconds ago": {
			lives: [][]life{{serving(0), silent(5)}, {serving(0), silent(5)}, {serving(0), leaderless(5)}},
			acts:  []Act{stop(32)}, outages: recovery, want: []Verdict{Unsafe},
		},
		"a recovery of a quorum that was lost 30 seconds ago": {
			lives: [][]life{{serving(0), silent(5)}, {serving(0), silent(5)}, {serving(0), leaderless(5)}},
			acts:  []Act{stop(35)}, outages: recovery, want: []Verdict{Asked},
		},
		"all are stopped again": {
			lives: [][]life{{serving(0), silent(12), again(18)}, {serving(0), silent(12), again(18)}, {serving(0), silent(12), again(18)}},
			acts:  []Act{stop(12), act(15, ScaleSet, beyond("main", 3)...), stop(40)}, outages: recreate, want: []Verdict{Asked, Unsafe},
		},
		"all are stopped, and the answer was lost": {
			lives: always(), acts: []Act{stop(12), stop(13)}, outages: recreate, want: []Verdict{Asked, Asked},
		},
		"the claim of a member that serves": {lives: always(), acts: []Act{act(20, DeleteClaim, "main-0")}, want: []Verdict{Unsafe}},
		"the claim of a dead member": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0)}, {serving(0)}}, acts: []Act{act(20, DeleteClaim, "main-0")}, want: []Verdict{Safe},
		},
		"the claim of a dead member, and there is no quorum": {
			lives: [][]life{{serving(0), silent(10)}, {serving(0), silent(10)}, {serving(0), leaderless(11)}},
			acts:  []Act{act(20, DeleteClaim, "main-0")}, want: []Verdict{Unsafe},
		},
		"claims in a recreation": {
			lives: [][]life{{serving(0), silent(12)}, {serving(0), silent(12)}, {serving(0), silent(12)}},
			acts:  []Act{stop(12), act(20, DeleteClaim, "main-0")}, outages: recreate, want: []Verdict{Asked, Unsafe},
		},
		"claims in a hibernation without volumes": {
			lives: [][]life{{serving(0), silent(12)}, {serving(0), silent(12)}, {serving(0), silent(12)}},
			acts:  []Act{stop(12), act(20, DeleteClaim, "main-0")}, outages: hibernate, want: []Verdict{Asked, Asked},
		},
		"claims in a hibernation while members run": {
			lives: always(), acts: []Act{act(20, DeleteClaim, "main-0")}, outages: hibernate, want: []Verdict{Unsafe},
		},
		"pods in a recreation that has not stopped all": {
			lives: always(), acts: []Act{act(20, DeletePod, "main-0"), act(20.1, DeletePod, "main-1")}, outages: recreate, want: []Verdict{Safe, Unsafe},
		},
		"pods of a hibernation that is over": {
			lives: [][]life{{serving(0), silent(12), again(18)}, {serving(0), silent(12), again(18)}, {serving(0), silent(12), again(18)}},
			acts:  []Act{stop(12), act(14, ScaleSet, beyond("main", 3)...), act(40, DeletePod, "main-0"), act(40.1, DeletePod, "main-1")}, outages: hibernate,
			want: []Verdict{Asked, Safe, Unsafe},
		},
		"pods after a recovery has started the members": {
			lives: [][]life{{serving(0), silent(2), again(44)}, {serving(0), silent(2), again(44)}, {serving(0), leaderless(3), silent(32), again(38)}},
			acts: []Act{
				stop(32), act(36, ScaleSet, beyond("main", 1)...), act(42, ScaleSet, beyond("main", 3)...), act(48, DeletePod, "main-0"), act(48.1, DeletePod, "main-1"),
			},
			outages: recovery, want: []Verdict{Asked, Asked, Safe, Unsafe},
		},
		"nobody had looked": {lives: [][]life{{serving(30)}}, acts: []Act{act(20, DeletePod, "main-0")}, want: []Verdict{Unjudged}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Verdict
			cluster := cluster
			cluster.Members = len(test.lives)
			_, containers, err := Read(strings.NewReader(test.log), cluster)
			if err != nil {
				t.Fatal(err)
			}
			judged := Judge(cluster, test.acts, containers, record(test.lives, test.learners...), test.outages)
			for _, j := range judged {
				got = append(got, j.Verdict)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("judged %v, want %v", judged, test.want)
			}
		})
	}
}

// line is a line of the audit log, for a request at second 20.
func line(verb, resource, name, body string, code int) string {
	resource, subresource, _ := strings.Cut(resource, "/")
	if body == "" {
		body = "null"
	}
	return fmt.Sprintf(`{"kind":"Event","stage":"ResponseComplete","verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"subresource":%q,"namespace":"robustness","name":%q},"requestObject":%s,"responseStatus":{"code":%d},"requestReceivedTimestamp":"2026-01-01T12:00:20.5Z"}`+"\n",
		verb, operator, resource, subresource, name, body, code)
}

func TestActs(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want string
	}{
		"a deletion":                      {line("delete", "pods", "main-1", `{"preconditions":{"uid":"u"}}`, 200), "delete pod main-1 [main-1] u"},
		"an eviction":                     {line("create", "pods/eviction", "main-1", `{"deleteOptions":{"preconditions":{"uid":"u"}}}`, 201), "evict pod main-1 [main-1] u"},
		"an eviction that only asks":      {line("create", "pods/eviction", "main-1", `{"deleteOptions":{"preconditions":{"uid":"u"},"dryRun":["All"]}}`, 201), ""},
		"a deletion that failed":          {line("delete", "pods", "main-1", "", 409), ""},
		"a deletion that timed out":       {line("delete", "pods", "main-1", `{"preconditions":{"uid":"u"}}`, 504), "delete pod main-1 [main-1] u, perhaps"},
		"a deletion with an error":        {line("delete", "pods", "main-1", "", 500), "delete pod main-1 [main-1] , perhaps"},
		"a deletion that panicked":        {strings.Replace(line("delete", "pods", "main-1", "", 500), "ResponseComplete", "Panic", 1), "delete pod main-1 [main-1] , perhaps"},
		"an eviction that was refused":    {line("create", "pods/eviction", "main-1", `{}`, 429), ""},
		"a dry run that timed out":        {line("delete", "pods", "main-1", `{"dryRun":["All"]}`, 504), ""},
		"the pod of a job":                {line("delete", "pods", "main-compaction", "", 200), ""},
		"the pod of another":              {line("delete", "pods", "other-1", "", 200), ""},
		"all pods":                        {line("deletecollection", "pods", "", "", 200), "delete collection of pods  [] "},
		"a label of a pod":                {line("patch", "pods", "main-1", `{"metadata":{"labels":{"a":"b"}}}`, 200), "update pod in place main-1 [main-1] "},
		"the revision of a pod":           {line("patch", "pods", "main-1", `{"metadata":{"labels":{"controller-revision-hash":"b"}}}`, 200), ""},
		"an annotation of a pod":          {line("patch", "pods", "main-1", `{"metadata":{"annotations":{"a":"b"}}}`, 200), ""},
		"the image of a pod":              {line("patch", "pods", "main-1", `{"spec":{"containers":[{"name":"etcd","image":"b"}]}}`, 200), "update pod in place main-1 [main-1] "},
		"a pod in whole":                  {line("update", "pods", "main-1", `{"spec":{}}`, 200), "update pod in place main-1 [main-1] "},
		"the resources of a pod":          {line("patch", "pods/resize", "main-1", `{"spec":{}}`, 200), "update pod in place main-1 [main-1] "},
		"the status of a pod":             {line("patch", "pods/status", "main-1", `{}`, 200), ""},
		"a scale":                         {line("update", "statefulsets/scale", "main", `{"spec":{"replicas":0}}`, 200), "scale StatefulSet main to 0 [main-0 main-1 main-2 main-3 main-4 main-5 main-6 main-7 main-8] "},
		"a StatefulSet with its replicas": {line("patch", "statefulsets", "main", `{"spec":{"replicas":7}}`, 200), "scale StatefulSet main to 7 [main-7 main-8] "},
		"a template":                      {line("patch", "statefulsets", "main", `{"spec":{"template":{}}}`, 200), ""},
		"a StatefulSet that is deleted":   {line("delete", "statefulsets", "main", `{"propagationPolicy":"Background"}`, 200), "delete StatefulSet main [] "},
		"a StatefulSet that is replaced":  {line("delete", "statefulsets", "main", `{"propagationPolicy":"Orphan"}`, 200), ""},
		"a claim":                         {line("delete", "persistentvolumeclaims", "main-main-2", "", 200), "delete claim main-main-2 [main-2] "},
		"all claims":                      {line("deletecollection", "persistentvolumeclaims", "", "", 200), "delete claim  [main-0 main-1 main-2 main-3 main-4 main-5 main-6 main-7 main-8] "},
		"the claim of a store":            {line("delete", "persistentvolumeclaims", "backups", "", 200), ""},
		"a torn line":                     {`{"stage":"Respo`, ""},
		"a dry run by its URI":            {strings.Replace(line("create", "pods/eviction", "main-1", `{}`, 201), `"verb"`, `"requestURI":"/api/v1/namespaces/robustness/pods/main-1/eviction?dryRun=All","verb"`, 1), ""},
		"a dry run of an eviction":        {line("create", "pods/eviction", "main-1", `{"deleteOptions":{"dryRun":["All"]}}`, 201), ""},
		"a dry run of a deletion":         {line("delete", "pods", "main-1", `{"dryRun":["All"]}`, 200), ""},
		"an eviction that is no dry run":  {line("create", "pods/eviction", "main-1", `{"deleteOptions":{"dryRun":[]}}`, 201), "evict pod main-1 [main-1] "},
	} {
		t.Run(name, func(t *testing.T) {
			acts, _, err := Read(strings.NewReader(test.line), cluster)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, a := range acts {
				got += fmt.Sprintf("%s %s %v %s", a.Kind, a.Name, a.Pods, a.UID)
				if a.Perhaps {
					got += ", perhaps"
				}
				if a.At != seconds(20.5) || a.User != operator {
					t.Errorf("%+v", a)
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if _, _, err := Read(strings.NewReader("no JSON\n"), cluster); err == nil {
		t.Error("a line that cannot be read is ignored")
	}
}

// An update that was perhaps not carried out does not count as what the pod has had before the next one.
func TestWhatARepeatedUpdateDoes(t *testing.T) {
	containers := func(one string) string { return `{"metadata":{"name":"main-1"},"spec":{"containers":[` + one + `]}}` }
	for subresource, test := range map[string]struct {
		body string
		want Effect
	}{
		"pods":        {containers(`{"name":"etcd","image":"b"}`), Restarts},
		"pods/resize": {containers(`{"name":"etcd","resources":{"requests":{"memory":"1Gi"},"limits":{"memory":"2Gi"}}}`), Lowers},
	} {
		log := line("create", "pods", "main-1", containers(`{"name":"etcd","image":"a","resources":{"requests":{"memory":"2Gi"},"limits":{"memory":"3Gi"}}}`), 201)
		for _, code := range []int{500, 200, 200} {
			log += line("patch", subresource, "main-1", test.body, code)
		}
		acts, _, err := Read(strings.NewReader(log), cluster)
		if err != nil || len(acts) != 3 || acts[0].Effect != test.want || acts[1].Effect != test.want || acts[2].Effect != Keeps {
			t.Errorf("%s: %+v, error %v", subresource, acts, err)
		}
	}
}

// What somebody who gets no answer says about a pod is no report of it.
func TestAStatusThatWasNotWritten(t *testing.T) {
	for code, want := range map[int]int{200: 1, 500: 0} {
		_, containers, err := Read(strings.NewReader(line("patch", "pods/status", "main-1", `{"metadata":{"uid":"u"}}`, code)), cluster)
		if err != nil || len(containers.pods) != want {
			t.Errorf("%d: %d pods, want %d, error %v", code, len(containers.pods), want, err)
		}
	}
}

// A removal without an answer counts like one that was carried out, until the pod serves more than a minute later.
func TestJudgeAfterAnActWithoutAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		perhaps bool
		at      float64
		want    Verdict
	}{
		"carried out":                 {false, 100, Unsafe},
		"perhaps, just now":           {true, 21, Unsafe},
		"perhaps, less than a minute": {true, 75, Unsafe},
		"perhaps, and more than that": {true, 100, Safe},
	} {
		first := act(20, DeletePod, "main-0")
		first.Perhaps, first.UID = test.perhaps, "uid-0"
		three := cluster
		three.Members = 3
		var samples []Sample
		for minute := range 2 {
			for _, s := range record(always()) {
				s.At += time.Duration(minute) * time.Minute
				samples = append(samples, s)
			}
		}
		if got := Judge(three, []Act{first, act(test.at, DeletePod, "main-1")}, &Containers{}, samples, nil); len(got) != 2 || got[0].Verdict != Safe || got[1].Verdict != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

func TestGaps(t *testing.T) {
	var acknowledged []time.Duration
	for at := time.Duration(0); at < time.Minute; at += 50 * time.Millisecond {
		if at < seconds(20) || at > seconds(22) {
			acknowledged = append(acknowledged, at)
		}
	}
	ours := Judgement{act(19, DeletePod, "main-0"), Safe, ""}
	unsafe := Judgement{act(19, DeletePod, "main-0"), Unsafe, ""}
	early := Judgement{act(10, DeletePod, "main-0"), Safe, ""}
	fault := Fault{From: seconds(15), To: seconds(18), Kind: "freeze", Target: "main-1"}
	for name, test := range map[string]struct {
		judged  []Judgement
		faults  []Fault
		outages []Outage
		want    Cause
	}{
		"nothing":                   {want: ByUnknown},
		"an act":                    {judged: []Judgement{ours}, want: ByUs},
		"an act long before":        {judged: []Judgement{early}, want: ByUnknown},
		"a fault":                   {faults: []Fault{fault}, want: ByFault},
		"a fault long before":       {faults: []Fault{{From: 0, To: seconds(3)}}, want: ByUnknown},
		"a fault of others":         {faults: []Fault{{From: fault.From, To: fault.To, SparesWrites: true}}, want: ByUnknown},
		"an act, a fault of others": {judged: []Judgement{ours}, faults: []Fault{{From: fault.From, To: fault.To, SparesWrites: true}}, want: ByUs},
		"an act during a fault":     {judged: []Judgement{ours}, faults: []Fault{fault}, want: ByFault},
		"an unsafe act in a fault":  {judged: []Judgement{unsafe}, faults: []Fault{fault}, want: ByUs},
		"a fault after an outage":   {faults: []Fault{fault}, outages: []Outage{{From: seconds(5), To: seconds(18)}}, want: ByFault},
		"after an outage":           {outages: []Outage{{From: seconds(5), To: seconds(18)}}, want: ByRequest},
		"as asked for":              {judged: []Judgement{ours}, outages: []Outage{{From: seconds(18), To: seconds(30)}}, want: ByRequest},
	} {
		t.Run(name, func(t *testing.T) {
			gaps := Gaps(acknowledged, time.Second, test.judged, test.faults, test.outages)
			if len(gaps) != 1 || gaps[0].Cause != test.want || gaps[0].Length() < 2*time.Second {
				t.Errorf("got %+v, want one of cause %s", gaps, test.want)
			}
		})
	}
}
