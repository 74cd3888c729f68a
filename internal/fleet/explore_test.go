// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// exploreAll explores further than is done in seconds.
var exploreAll = flag.Bool("explore-all", false, "explore eight events instead of five")

// settings of the policies of a world. All clusters are in namespace a, but the last, which is in b.
type settings struct {
	clusters int
	limit    [2]int // of the policy for all, and of the one for b; 0 for the second: there is none
	failures int
	canaries int
	// quorumless: a cluster in which a change fails has no quorum, so its next task is no repair.
	quorumless bool
	// mixed: every second cluster has another template before, so that the same one is another change there.
	mixed bool
}

// seen is what the judge knows of a world: what was done to each cluster, from the actions alone.
type seen struct {
	// Running and Watched are the changes that clusters have at the moment; Canary are those that keep their slot.
	Running, Watched map[int]string
	Canary           map[int]bool
	// Left are clusters whose task was deleted while they lacked a member, and that task; After are those that are watched, and their task.
	Left, After map[int]types.UID
	// Unwell are watched clusters whose members are not well, and whose next task waits.
	Unwell map[int]bool
	// Good is how often a change succeeded, and Bad the clusters in which it failed since it was resumed, by policy and change. Proven are the
	// templates with which one has.
	Good   map[string]int
	Proven map[string]bool
	Bad    map[string]map[int]bool
}

// world is a state of the exploration.
type world struct {
	Ledger Ledger
	// Wants is the change that each cluster has yet to get.
	Wants map[int]string
	Seen  seen
	// Paused is the policy for all.
	Paused bool
	// Sick are clusters that lack a member and hold no slot.
	Sick map[int]bool
	// Tries counts tasks, so that each has a UID of its own.
	Tries map[int]int
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (w world) clone() world {
	data, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	var c world
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	return c
}

func namespaceOf(s settings, i int) string {
	if i == s.clusters-1 {
		return "b"
	}
	return "a"
}

func (w *world) task(i int) types.UID { return types.UID(fmt.Sprintf("t%d-%d", i, w.Tries[i])) }

// target is the template that a change leads to: A is the change to it from most, and A' from another one.
func target(change string) string { return strings.TrimSuffix(change, "'") }

func etcdUID(i int) types.UID { return types.UID(fmt.Sprintf("e%d", i)) }

func (w *world) input(s settings) Input {
	in := Input{Now: began.Add(10 * time.Minute), Ledger: &w.Ledger, Policies: map[string]*Policy{}, Failing: map[types.UID]string{}, Covering: map[string][]string{"a": {"all"}, "b": {"all"}}}
	for i := range s.clusters {
		if slices.Contains(w.Ledger.Failing, etcdUID(i)) {
			in.Failing[etcdUID(i)] = namespaceOf(s, i)
		}
	}
	for n, limit := range s.limit {
		name := []string{"all", "b"}[n]
		if n == 1 && limit == 0 {
			continue
		}
		in.Policies[name] = &Policy{Name: name, Generation: 1, MaxConcurrent: limit, MaxFailures: s.failures, Canary: Canary{Count: s.canaries}, Paused: w.Paused && n == 0, Clusters: s.clusters}
		if n == 1 {
			in.Covering["b"] = []string{"all", "b"}
		}
	}
	for i, change := range w.Wants {
		class := Automatic
		if w.Sick[i] && !s.quorumless {
			class = Repair
		}
		in.Waiting = append(in.Waiting, Candidate{Task: w.task(i), TaskName: "t", Namespace: namespaceOf(s, i), Etcd: etcdUID(i), EtcdName: string(etcdUID(i)), Change: change, Target: target(change), Class: class, Since: began})
	}
	for i := range w.Sick {
		in.Impaired = append(in.Impaired, Impaired{Etcd: etcdUID(i), Namespace: namespaceOf(s, i), Since: began})
	}
	return in
}

// action is something that may happen in a world, and what the judge makes of it.
type action struct {
	name string
	do   func(*world) error
}

func (w world) actions(s settings) (all []action) {
	for i := range s.clusters {
		if _, waits := w.Wants[i]; waits {
			all = append(all, action{fmt.Sprintf("ask %d", i), func(w *world) error { return w.ask(s, i) }})
		}
		if change, runs := w.Seen.Running[i]; runs && change == "" {
			all = append(all, action{fmt.Sprintf("maintained %d", i), func(w *world) error { w.maintained(i); return nil }})
		} else if runs {
			all = append(all,
				action{fmt.Sprintf("succeed %d", i), func(w *world) error { w.end(s, i, change, "succeed"); return nil }},
				action{fmt.Sprintf("fail %d", i), func(w *world) error { w.end(s, i, change, "fail"); return nil }},
				action{fmt.Sprintf("abort %d", i), func(w *world) error { w.end(s, i, change, "abort"); return nil }},
				action{fmt.Sprintf("fix %d", i), func(w *world) error { w.end(s, i, change, "abort"); w.want(i, "B"); return nil }},
				action{fmt.Sprintf("fix %d, which lacks a member", i), func(w *world) error { w.end(s, i, change, "supersede"); return nil }},
				action{fmt.Sprintf("delete the task of %d, which lacks a member", i), func(w *world) error { w.end(s, i, change, "delete"); return nil }},
			)
		}
		if _, left := w.Seen.Left[i]; left {
			all = append(all, action{fmt.Sprintf("%d is whole", i), func(w *world) error { w.whole(i); return nil }})
		}
		if change, watched := w.Seen.Watched[i]; watched {
			all = append(all,
				action{fmt.Sprintf("soaked %d", i), func(w *world) error { w.watched(s, i, change, true); return nil }},
				action{fmt.Sprintf("broke %d", i), func(w *world) error { w.watched(s, i, change, false); return nil }})
			_, waits := w.Wants[i]
			if _, runs := w.Seen.Running[i]; !waits && !runs {
				all = append(all,
					action{fmt.Sprintf("maintain %d", i), func(w *world) error { w.want(i, ""); return nil }},
					action{fmt.Sprintf("fix %d, which is watched and not well", i), func(w *world) error { w.want(i, "B"); w.Seen.Unwell[i] = true; return nil }})
				if *exploreAll {
					all = append(all, action{fmt.Sprintf("change %d again", i), func(w *world) error { w.want(i, "B"); return nil }})
				}
			}
		}
	}
	all = append(all, action{"pause", func(w *world) error { w.Paused = !w.Paused; return nil }})
	for _, c := range w.Ledger.Changes {
		if len(c.Failures) > s.failures {
			all = append(all, action{"resume " + c.Policy + " " + c.Name, func(w *world) error {
				w.Ledger.ResumeBy(c.Policy, c.ResumeToken())
				delete(w.Seen.Bad, c.Policy+c.Name)
				return nil
			}})
		}
	}
	return all
}

// want has a cluster wait for a change with another task.
func (w *world) want(i int, change string) {
	w.Tries[i]++
	w.Wants[i] = change
}

// ask asks for a slot, and takes it.
func (w *world) ask(s settings, i int) error {
	in := w.input(s)
	d := Decide(in, w.task(i))
	if d.Hold != nil {
		return nil
	}
	change := w.Wants[i]
	if change != "" && w.leave(s, i) {
		if d = Decide(in, w.task(i)); d.Hold != nil {
			return nil
		}
	}
	if err := w.judge(s, i, change); err != nil {
		return err
	}
	delete(w.Wants, i)
	w.Seen.Running[i] = change
	if change == "" {
		w.Ledger.GrantBeside(Grant(in, w.task(i), d))
		return nil
	}
	w.Ledger.Grant(Grant(in, w.task(i), d))
	delete(w.Sick, i)
	delete(w.Seen.Watched, i)
	delete(w.Seen.Canary, i)
	delete(w.Seen.Left, i)
	if d.Canary {
		w.Seen.Canary[i] = true
	}
	return nil
}

// leave has the next task of a cluster end its watch, and reports whether the change of a canary counts as failed.
func (w *world) leave(s settings, i int) bool {
	unwell := w.Seen.Unwell[i]
	delete(w.Seen.Unwell, i)
	if unwell && w.Seen.Canary[i] {
		w.bad(s, i, w.Seen.Watched[i])
	}
	h := w.Ledger.Watched(etcdUID(i))
	if h == nil || !unwell {
		return false
	}
	w.Ledger.Abandoned(h.Task, "it lacks a member", began.Add(25*time.Minute))
	return true
}

// maintained has the maintenance of a cluster succeed.
func (w *world) maintained(i int) {
	w.Ledger.Succeeded(w.task(i), began.Add(25*time.Minute))
	delete(w.Seen.Running, i)
}

func (w *world) end(s settings, i int, change, how string) {
	task := w.task(i)
	delete(w.Seen.Running, i)
	now := began.Add(20 * time.Minute)
	switch how {
	case "succeed":
		w.Ledger.Succeeded(task, now)
		w.Seen.Watched[i], w.Seen.After[i] = change, task
		return
	case "fail":
		w.Ledger.Failed(task, "it failed", now)
		w.bad(s, i, change)
		w.Sick[i] = true
	case "supersede", "delete":
		w.Sick[i] = true
		if w.Seen.Canary[i] {
			w.bad(s, i, change)
		}
	}
	delete(w.Seen.Canary, i)
	switch how {
	case "delete":
		w.Ledger.Aborted(task, "it lacks a member", now)
		w.Seen.Left[i] = task
	case "supersede":
		w.Ledger.Abandoned(task, "it lacks a member", now)
		w.Ledger.Release(task, now)
		change = "B"
	default:
		w.Ledger.Release(task, now)
	}
	// The operator tries again.
	w.want(i, change)
}

// whole has a cluster lack no member any more whose task was deleted.
func (w *world) whole(i int) {
	w.Ledger.Release(w.Seen.Left[i], began.Add(30*time.Minute))
	delete(w.Seen.Left, i)
	delete(w.Sick, i)
}

func (w *world) bad(s settings, i int, change string) {
	for _, key := range []string{"all" + change, "b" + change} {
		if key[0] == 'b' && (s.limit[1] == 0 || namespaceOf(s, i) != "b") {
			continue
		}
		if w.Seen.Bad[key] == nil {
			w.Seen.Bad[key] = map[int]bool{}
		}
		w.Seen.Bad[key][i] = true
	}
}

func (w *world) watched(s settings, i int, change string, good bool) {
	task := w.Seen.After[i]
	delete(w.Seen.Watched, i)
	delete(w.Seen.Canary, i)
	delete(w.Seen.Unwell, i)
	if good {
		w.Ledger.Soaked(task, began)
		w.Seen.Good[change]++
		w.Seen.Proven[target(change)] = true
		return
	}
	w.Ledger.Failed(task, "it broke", began)
	w.Ledger.Release(task, began)
	w.bad(s, i, change)
	if _, runs := w.Seen.Running[i]; !runs {
		w.want(i, change)
	}
}

// judge says what is wrong with the start of a change in a cluster, by what was seen alone.
func (w *world) judge(s settings, i int, change string) error {
	if w.Paused {
		return fmt.Errorf("it started while the policy is paused")
	}
	busy, inB := 0, 0
	for j := range s.clusters {
		_, runs := w.Seen.Running[j]
		_, watched := w.Seen.Watched[j]
		_, left := w.Seen.Left[j]
		if j != i && (runs || left || watched && w.Seen.Canary[j]) {
			busy++
			if namespaceOf(s, j) == "b" {
				inB++
			}
		}
	}
	if busy >= s.limit[0] || namespaceOf(s, i) == "b" && s.limit[1] > 0 && inB >= s.limit[1] {
		return fmt.Errorf("%d clusters are busy already", busy)
	}
	// Another change counts as this one as long as it is unknown whether the template works.
	same := func(other string) bool {
		return other == change || target(other) == target(change) && !w.Seen.Proven[target(change)]
	}
	for key, bad := range w.Seen.Bad {
		if other, all := strings.CutPrefix(key, "all"); all && same(other) && len(bad) > s.failures && (other == change || !bad[i]) {
			return fmt.Errorf("change %s failed in %d clusters already", other, len(bad))
		}
	}
	if change == "" || w.Seen.Good[change] >= s.canaries {
		return nil
	}
	trying := 0
	for j := range s.clusters {
		running, runs := w.Seen.Running[j]
		watched, isWatched := w.Seen.Watched[j]
		if j != i && (runs && same(running) || isWatched && same(watched)) {
			trying++
		}
	}
	if trying+w.Seen.Good[change] >= s.canaries {
		return fmt.Errorf("the change is being tried in %d clusters already, and has succeeded in %d", trying, w.Seen.Good[change])
	}
	return nil
}

// stuck says why a world in which nothing is underway, and nothing is to be decided by a person, does not go on. A cluster that lacks a
// member waits for a change, too.
func (w *world) stuck(s settings) error {
	if w.Paused || len(w.Wants) == 0 || len(w.Seen.Running) > 0 || len(w.Seen.Watched) > 0 {
		return nil
	}
	var holds []string
	for i, change := range w.Wants {
		paused := slices.ContainsFunc(w.Ledger.Changes, func(c Change) bool {
			same := c.Name == change || target(c.Name) == target(change) && !w.Seen.Proven[target(change)]
			return same && len(c.Failures) > s.failures
		})
		d := Decide(w.input(s), w.task(i))
		if d.Hold == nil || paused {
			return nil
		}
		holds = append(holds, d.Hold.Message)
	}
	return fmt.Errorf("nothing starts: %v", holds)
}

func start(s settings) world {
	w := world{Wants: map[int]string{}, Paused: false, Sick: map[int]bool{}, Tries: map[int]int{}, Seen: seen{
		Running: map[int]string{}, Watched: map[int]string{}, Canary: map[int]bool{}, Left: map[int]types.UID{}, After: map[int]types.UID{}, Unwell: map[int]bool{}, Good: map[string]int{}, Bad: map[string]map[int]bool{},
		Proven: map[string]bool{},
	}}
	w.Ledger.Policies = []Recorded{{Name: "all"}, {Name: "b"}}
	for i := range s.clusters {
		w.Wants[i] = "A"
		if s.mixed && i%2 == 1 {
			w.Wants[i] = "A'"
		}
	}
	return w
}

// explore visits all worlds within some actions, and returns how many there are.
func explore(t *testing.T, s settings, depth int) int {
	t.Helper()
	visited := map[string]int{}
	var visit func(w world, left int, path []string)
	visit = func(w world, left int, path []string) {
		key := w.key()
		if seenWith, ok := visited[key]; ok && seenWith >= left || t.Failed() {
			return
		}
		visited[key] = left
		if err := w.stuck(s); err != nil {
			t.Errorf("%+v after %v: %v", s, path, err)
			return
		}
		if left == 0 {
			return
		}
		for _, a := range w.actions(s) {
			next := w.clone()
			if err := a.do(&next); err != nil {
				t.Errorf("%+v after %v, %s: %v", s, path, a.name, err)
				return
			}
			visit(next, left-1, append(slices.Clone(path), a.name))
		}
	}
	visit(start(s), depth, nil)
	return len(visited)
}

// key is the same for worlds that cannot be told apart by what happens next.
func (w world) key() string {
	c := w.clone()
	c.Tries, c.Ledger.Over = nil, nil
	for i := range c.Ledger.Holders {
		c.Ledger.Holders[i].Task = ""
	}
	for i := range c.Ledger.Policies {
		c.Ledger.Policies[i].Seconds = nil
	}
	for i := range c.Ledger.Changes {
		c.Ledger.Changes[i].Resumed, c.Ledger.Changes[i].Last = 0, time.Time{}
	}
	c.Seen.After = nil
	for i := range c.Seen.Left {
		c.Seen.Left[i] = ""
	}
	for k, n := range c.Seen.Good {
		c.Seen.Good[k] = min(n, 3)
	}
	slices.SortFunc(c.Ledger.Holders, func(a, b Holder) int { return slices.Compare([]byte(a.Etcd), []byte(b.Etcd)) })
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Whatever happens to the clusters: no more than the limit are busy, a change starts in more clusters than canaries only once it has
// succeeded in these, one that failed too often starts nowhere, and what is not paused goes on. Of two changes to the same template, which
// is not known to work, all of that holds as if they were one. The judge sees what happens to clusters, and knows neither the
// ledger nor the rules.
func TestExploration(t *testing.T) {
	total, depth := 0, 5
	if *exploreAll {
		depth = 8
	}
	for _, clusters := range []int{2, 3} {
		for _, limit := range [][2]int{{1, 0}, {2, 0}, {2, 1}} {
			for failures := range 2 {
				for canaries := range 3 {
					for kind := range 3 {
						total += explore(t, settings{clusters, limit, failures, canaries, kind&1 != 0, kind&2 != 0}, depth)
					}
				}
			}
		}
	}
	t.Logf("%d worlds", total)
}

// A cluster that hit a bad template is the only one, in every order of events, and whatever ends its rollout, or its watch: it fails, or someone
// sets the cluster right or deletes the task before that.
func TestOneBadTemplateReachesOneCluster(t *testing.T) {
	s := settings{clusters: 4, limit: [2]int{3, 0}, failures: 0, canaries: 1}
	for _, how := range []string{"fail", "supersede", "delete", "succeed and fix", "fail from two templates", "supersede from two templates", "delete from two templates", "succeed and fix from two templates"} {
		how, s.mixed = strings.CutSuffix(how, " from two templates")
		w := start(s)
		touched := map[int]bool{}
		for range 20 {
			for _, i := range slices.Sorted(maps.Keys(w.Wants)) {
				if err := w.ask(s, i); err != nil {
					t.Fatal(err)
				}
			}
			for i, change := range maps.Clone(w.Seen.Running) {
				if change == "B" {
					w.end(s, i, change, "succeed")
					continue
				}
				touched[i] = true
				first, fix, _ := strings.Cut(how, " and ")
				if w.end(s, i, change, first); fix != "" {
					w.want(i, "B")
					w.Seen.Unwell[i] = true
				}
			}
		}
		if len(touched) != 1 {
			t.Errorf("%s: it reached clusters %v", how, touched)
		}
	}
}
