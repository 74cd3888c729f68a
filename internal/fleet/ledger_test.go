// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A cluster gets a change, succeeds, is watched, and the change is done in it.
func TestLedgerOfAChange(t *testing.T) {
	l := &Ledger{Failing: []types.UID{"etcd-a", "etcd-b"}, Policies: []Recorded{{Name: "p"}}}
	l.Grant(holding("a", func(h *Holder) { h.Canary = true }))
	if c := l.Change("p", "A"); c == nil || !c.Since.Equal(noon.Add(-time.Minute)) {
		t.Fatalf("%+v", l)
	}
	l.Succeeded("a", noon)
	h := l.Holder("a")
	if !h.Ended.Equal(noon) || !h.UsesSlot() || fmt.Sprint(l.Policies[0].Seconds) != "[60]" {
		t.Fatalf("%+v", l)
	}
	l.Succeeded("a", noon.Add(time.Hour))
	if !l.Holder("a").Ended.Equal(noon) || len(l.Policies[0].Seconds) != 1 {
		t.Error("it ends once")
	}
	l.Soaked("a", noon)
	if c := l.Change("p", "A"); c.Done != 1 || c.Passed != 1 || len(l.Holders) != 0 || fmt.Sprint(l.Failing) != "[etcd-b]" {
		t.Errorf("%+v", l)
	}
	l.Grant(holding("c"))
	l.Succeeded("c", noon)
	if l.Holder("c").UsesSlot() {
		t.Error("it is no canary")
	}
	l.Soaked("c", noon)
	if c := l.Change("p", "A"); c.Done != 2 || c.Passed != 1 {
		t.Errorf("%+v", c)
	}
	// What is not there.
	l.Succeeded("x", noon)
	l.Soaked("x", noon)
	l.Failed("x", "", noon)
	l.Release("x", noon)
}

// A failure counts once for each cluster, the clusters are remembered, and a person resumes what they have seen.
func TestLedgerOfFailures(t *testing.T) {
	l := &Ledger{}
	l.Grant(holding("a"))
	long := strings.Repeat("x", 2*maxReason)
	l.Failed("a", long, noon)
	l.Failed("a", "again", noon)
	c := l.Change("p", "A")
	if len(c.Failures) != 1 || c.Failures[0].Reason != long[:maxReason] || c.Failures[0].Namespace != "a" || !c.Failures[0].At.Equal(noon) || !l.Holder("a").Counted {
		t.Fatalf("%+v", c)
	}
	if !c.Paused(&Policy{}) || c.Paused(&Policy{MaxFailures: 1}) {
		t.Error("one is more than none")
	}
	// It succeeds after all: that is no success of the change.
	l.Succeeded("a", noon)
	if len(l.Holders) != 0 || l.Change("p", "A").Done != 0 {
		t.Errorf("%+v", l)
	}
	// The same cluster fails again.
	l.Grant(holding("a"))
	l.Failed("a", "again", noon)
	if len(l.Change("p", "A").Failures) != 1 || fmt.Sprint(l.Failing) != "[etcd-a]" {
		t.Errorf("%+v", l)
	}
	token := c.ResumeToken()
	for _, token := range []string{"", "A", "A.0", "A.1", "A.x", "B" + token[1:], "A.0" + token[1:]} {
		if l.ResumeBy("p", token) {
			t.Errorf("%q resumes it", token)
		}
	}
	if (&Ledger{Changes: []Change{{Policy: "p", Failures: []Failure{{}}}}}).ResumeBy("p", ".0") != true {
		t.Error("the name is what is before the last dot")
	}
	if l.ResumeBy("q", token) || !l.ResumeBy("p", token) || l.ResumeBy("p", token) || l.ResumeBy("p", l.Change("p", "A").ResumeToken()) {
		t.Error("it is resumed once")
	}
	if c := l.Change("p", "A"); c.Paused(&Policy{}) || c.ResumeToken() == token {
		t.Errorf("%+v", c)
	}
	// What changes nothing fails nothing.
	l.Grant(holding("d", func(h *Holder) { h.Change = "" }))
	l.Failed("d", "no", noon)
	if len(l.Changes) != 1 || slices.Contains(l.Failing, "etcd-d") {
		t.Errorf("%+v", l)
	}
	l.Succeeded("d", noon)
	if l.Holder("d") != nil {
		t.Error("it is not watched")
	}
	for i := range 2 * maxFailing {
		name := fmt.Sprintf("a%d", i)
		l.Grant(holding(name))
		l.Failed(types.UID(name), "no", noon)
	}
	if len(l.Failing) != maxFailing || l.Failing[maxFailing-1] != types.UID(fmt.Sprintf("etcd-a%d", 2*maxFailing-1)) {
		t.Errorf("%d are remembered", len(l.Failing))
	}
}

// A canary that ends otherwise while its members are not well counts as failed; one whose members are well, or another cluster, does not.
// The next task of a cluster takes over the slot that a deleted one has left.
func TestACanaryThatIsAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		canary bool
		left   string
		failed int
	}{"a canary": {true, "m-0 was being replaced", 1}, "one that is well": {true, "", 0}, "no canary": {false, "m-0 was being replaced", 0}} {
		for _, deleted := range []bool{false, true} {
			l := &Ledger{}
			l.Grant(holding("a", func(h *Holder) { h.Canary = c.canary }))
			if deleted {
				l.Aborted("a", c.left, noon)
				l.Aborted("a", c.left, noon)
				if h := l.Holder("a"); h == nil || !h.UsesSlot() {
					t.Errorf("%s: the slot is free: %+v", name, l.Holders)
				}
				l.Grant(holding("b", func(h *Holder) { h.Etcd, h.Change = "etcd-a", "B" }))
			} else {
				l.Abandoned("a", c.left, noon)
				l.Release("a", noon)
			}
			if failures := l.Change("p", "A").Failures; l.Holder("a") != nil || len(failures) != c.failed || len(l.Failing) != c.failed {
				t.Errorf("%s, deleted: %t: %+v", name, deleted, l)
			}
		}
	}
	l := &Ledger{}
	l.Aborted("gone", "x", noon)
	l.Abandoned("gone", "x", noon)
}

// A task whose slot is withdrawn may have it again, no matter which tasks are ahead of it by now, unless something else objects.
func TestAgain(t *testing.T) {
	in := situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), holders(holding("w1")), others(waiting("b", func(c *Candidate) { c.Class = Person })))
	if held := in.Ledger.Withdraw("w1"); held == nil || held.Task != "w1" || len(in.Ledger.Holders) > 0 || in.Ledger.Withdraw("w1") != nil {
		t.Fatalf("%+v", in.Ledger)
	}
	if Decide(in, "w1").Hold == nil || Again(in, "w1").Hold != nil || Again(in, "w1").Canary {
		t.Error("it has its slot again")
	}
	in.Policies["p"].Paused = true
	if d := Again(in, "w1"); d.Hold == nil || d.Hold.Reason != FleetPaused {
		t.Errorf("%+v", d)
	}
	if first := situation(history()); !Again(first, "w1").Canary {
		t.Error("it is a canary")
	}
	if d := Again(in, "gone"); d.Hold == nil || d.Hold.Reason != WaitingForSlot || in.InLine("gone") || !in.InLine("w1") {
		t.Errorf("%+v: it is not in line", d)
	}
}

// The next task of a cluster that is watched ends that.
func TestNextTaskOfAWatchedCluster(t *testing.T) {
	l := &Ledger{}
	l.Grant(holding("a"))
	l.Grant(holding("b"))
	l.Succeeded("a", noon)
	l.Succeeded("b", noon)
	next := holding("c", func(h *Holder) { h.Etcd = "etcd-a" })
	l.Grant(next)
	if len(l.Holders) != 2 || l.Holder("a") != nil || l.Holder("b") == nil {
		t.Errorf("%+v", l.Holders)
	}
}

// A canary that is watched is judged before that, once.
func TestCanariesThatAreWatched(t *testing.T) {
	l := &Ledger{}
	for _, name := range []string{"canary", "other", "running", "counted"} {
		l.Grant(holding(name, func(h *Holder) { h.Canary, h.Counted = name != "other", name == "counted" }))
	}
	for _, name := range []types.UID{"canary", "other"} {
		l.Succeeded(name, noon)
	}
	for name, want := range map[types.UID]bool{"canary": true, "other": false, "running": false, "counted": false, "gone": false} {
		if got := l.Watched("etcd-" + name); (got != nil) != want || got != nil && got.Task != name {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l.Abandoned("canary", "it is not ready", noon)
	if l.Watched("etcd-canary") != nil || len(l.Change("p", "A").Failures) != 1 {
		t.Errorf("%+v", l)
	}
}

// A task that changes no template leaves its cluster watched, which is compared with how it is after that. A deleted one leaves it its slot.
func TestMaintenanceOfAWatchedCluster(t *testing.T) {
	l := &Ledger{}
	for _, name := range []string{"a", "b", "c"} {
		l.Grant(holding(name, func(h *Holder) { h.Canary, h.Baseline = true, "well" }))
	}
	l.Succeeded("a", noon)
	l.Succeeded("b", noon)
	l.Aborted("c", "", noon)
	for _, name := range []string{"a", "c"} {
		l.GrantBeside(holding("d", func(h *Holder) { h.Task, h.Etcd, h.Change = types.UID("defrag-"+name), types.UID("etcd-"+name), "" }))
	}
	a, b := l.Holder("a"), l.Holder("b")
	if len(l.Holders) != 4 || a == nil || a.Baseline != "" || b.Baseline != "well" || l.Holder("c") != nil || l.Watched("etcd-a") != a || !l.Maintained(a) || l.Maintained(b) {
		t.Errorf("%+v", l.Holders)
	}
	l.Succeeded("defrag-a", noon)
	if l.Maintained(l.Holder("a")) || l.Holder("defrag-a") != nil {
		t.Errorf("%+v", l.Holders)
	}
}

// A generation is recorded once, and never an older one; another policy of that name is recorded once the first is forgotten.
func TestRecord(t *testing.T) {
	l := &Ledger{}
	p := &Policy{Name: "p", UID: "1", Generation: 2}
	if !l.Record(p) || l.Record(p) || l.Recorded("q") != nil {
		t.Errorf("%+v", l)
	}
	p.Generation = 1
	if l.Record(p) || l.Recorded("p").Generation != 2 {
		t.Errorf("%+v", l)
	}
	p.Generation = 3
	if !l.Record(p) || l.Recorded("p").Generation != 3 {
		t.Errorf("%+v", l)
	}
	l.Recorded("p").Seconds = []int{1}
	p.UID, p.Generation = "2", 4
	if l.Record(p) || l.Recorded("p").UID != "1" || l.Forget([]types.UID{"2"}) || !l.Forget([]types.UID{"3", "1"}) || !l.Record(p) ||
		l.Recorded("p").UID != "2" || l.Recorded("p").Generation != 4 || len(l.Recorded("p").Seconds) != 0 {
		t.Errorf("%+v", l)
	}
}

// A change that was tried long ago is tried again. What has waited since then belongs to that time, and so does what a cluster has.
func TestLapse(t *testing.T) {
	since := func(d time.Duration) func(*Candidate) { return func(c *Candidate) { c.ChangeSince = noon.Add(d) } }
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"after an hour":               {situation(candidate(since(lapse + 1))), true},
		"within it":                   {situation(candidate(since(lapse))), false},
		"another has waited":          {situation(candidate(since(2*lapse)), others(waiting("a", since(0)))), false},
		"one has, by its status":      {situation(candidate(since(2*lapse)), func(in *Input) { in.Asked = map[string]time.Time{"A": noon} }), false},
		"long after, by its status":   {situation(candidate(since(2*lapse)), func(in *Input) { in.Asked = map[string]time.Time{"A": noon.Add(2 * lapse)} }), true},
		"another change has":          {situation(candidate(since(2*lapse)), others(waiting("a", since(0), func(c *Candidate) { c.Change = "B" }))), true},
		"a cluster has it":            {situation(candidate(since(2*lapse)), holders(holding("a"))), false},
		"one has another":             {situation(candidate(since(2*lapse)), holders(holding("a", func(h *Holder) { h.Change = "B" }))), true},
		"it is not asked for":         {situation(candidate(func(c *Candidate) { c.Change, c.ChangeSince = "B", noon.Add(2*lapse) })), false},
		"it has yet to pass a canary": {situation(candidate(since(2*lapse)), history(Change{Policy: "p", Name: "A", Done: 1})), false},
	} {
		change := &c.in.Ledger.Changes[0]
		change.Last, change.Done = noon, 3
		if got := Lapse(c.in); got != c.want || (change.Passed == 0) != (c.want || name == "it has yet to pass a canary") {
			t.Errorf("%s: %t, %+v", name, got, change)
		}
		if c.want && (change.Done != 0 || !change.Since.Equal(c.in.Waiting[0].ChangeSince)) {
			t.Errorf("%s: %+v", name, change)
		}
	}
	// Each grant and each end counts.
	l := &Ledger{Policies: []Recorded{{Name: "p"}}}
	l.Grant(holding("a"))
	l.Grant(holding("b", func(h *Holder) { h.Granted = noon }))
	if c := l.Change("p", "A"); !c.Last.Equal(noon) || !c.Since.Equal(noon.Add(-time.Minute)) {
		t.Errorf("%+v", c)
	}
	l.Succeeded("a", noon)
	l.Soaked("a", noon.Add(time.Hour))
	if c := l.Change("p", "A"); !c.Last.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", c)
	}
}

// What resumed a change does not resume it in a later life: it was forgotten, and has failed again.
func TestAnOldDecisionResumesNothing(t *testing.T) {
	l := &Ledger{}
	fail := func(now time.Time) string {
		l.Grant(holding("a", func(h *Holder) { h.Granted = now }))
		l.Failed("a", "it crashes", now)
		l.Release("a", now)
		return l.Change("p", "A").ResumeToken()
	}
	token := fail(noon)
	if !l.ResumeBy("p", token) {
		t.Fatal(token)
	}
	l.Changes = nil
	if fail(noon.Add(time.Hour)); l.ResumeBy("p", token) {
		t.Errorf("%s resumes it again", token)
	}
}

func TestUsual(t *testing.T) {
	var none *Recorded
	if none.Usual() != 0 || (&Recorded{Seconds: []int{1, 2, 3, 4}}).Usual() != 0 {
		t.Error("too few are known")
	}
	r := &Recorded{}
	for i := range 20 {
		r.Seconds = append(r.Seconds, 20-i)
	}
	if r.Usual() != 18*time.Second || r.Seconds[0] != 20 {
		t.Errorf("%s", r.Usual())
	}
	l := &Ledger{Policies: []Recorded{{Name: "p"}}}
	for i := range maxSeconds + 10 {
		l.Grant(holding("a", func(h *Holder) { h.Granted = noon.Add(-time.Duration(i) * time.Second) }))
		l.Release("a", noon)
	}
	if s := l.Policies[0].Seconds; len(s) != maxSeconds || s[maxSeconds-1] != maxSeconds+9 {
		t.Errorf("%v", s)
	}
	l.Grant(holding("a", func(h *Holder) { h.Unasked = true }))
	l.Grant(holding("b", func(h *Holder) { h.Granted = noon.Add(time.Hour) }))
	l.Release("a", noon)
	l.Release("b", noon)
	if s := l.Policies[0].Seconds; s[maxSeconds-1] != 0 || s[maxSeconds-2] != maxSeconds+9 {
		t.Errorf("%v", s)
	}
}

func none() []Candidate { return nil }

// A tenant who makes many changes fail pushes out only their own; changes that a holder has stay.
func TestChangesAreBounded(t *testing.T) {
	l := &Ledger{}
	fail := func(namespace, change string) {
		l.Grant(holding(namespace, func(h *Holder) { h.Change = change }))
		l.Failed(types.UID(namespace), "no", noon)
		l.Release(types.UID(namespace), noon)
		l.Prune(nil, none)
	}
	fail("v", "victim")
	fail("w", "other")
	l.Grant(holding("h", func(h *Holder) { h.Change = "held" }))
	for i := range 3 * maxChanges {
		fail("t", fmt.Sprintf("c%d", i))
	}
	count := 0
	for _, c := range l.Changes {
		if c.Policy == "p" {
			count++
		}
	}
	if count != maxChanges || l.Change("p", "victim") == nil || l.Change("p", "other") == nil || l.Change("p", "held") == nil || l.Change("p", "c0") != nil {
		t.Errorf("%d changes", count)
	}
	l = &Ledger{}
	fail("v", "victim")
	for i := range 3 * maxChanges {
		l.Grant(holding("t", func(h *Holder) { h.Change = fmt.Sprintf("c%d", i) }))
		l.Release("t", noon)
		l.Prune(nil, none)
	}
	if l.Change("p", "victim") == nil || len(l.Changes) != maxChanges || l.Change("p", "c0") != nil {
		t.Error("what has not failed goes first")
	}
}

// A change that others wait for is not forgotten by what one tenant has fail after that, also if it failed first in their cluster, and if
// others ask for the template in another way. What they wait for without a failure stays, too.
func TestAChangeThatOthersWaitFor(t *testing.T) {
	covering := map[string][]string{"a": {"p"}, "b": {"p"}, "t": {"p"}, "q": {"q"}}
	for name, c := range map[string]struct {
		asking []Candidate
		stays  bool
	}{
		"nothing asks for it":            {nil, false},
		"another namespace does":         {[]Candidate{waiting("a", func(c *Candidate) { c.Change = "X" })}, true},
		"it asks for its template":       {[]Candidate{waiting("a", func(c *Candidate) { c.Change, c.Target = "Y", "T" })}, true},
		"for another":                    {[]Candidate{waiting("a", func(c *Candidate) { c.Change, c.Target = "Y", "U" })}, false},
		"the tenant does":                {[]Candidate{waiting("t", func(c *Candidate) { c.Change = "X" })}, false},
		"one of another policy does":     {[]Candidate{waiting("q", func(c *Candidate) { c.Change = "X" })}, false},
		"an accomplice asks for all":     {append(accomplice("b"), waiting("a", func(c *Candidate) { c.Change = "X" }), waiting("b", func(c *Candidate) { c.Change = "X" })), true},
		"in two tasks, which count once": {append(accomplice("b"), append(accomplice("b"), waiting("a", func(c *Candidate) { c.Change = "X" }), waiting("b", func(c *Candidate) { c.Change = "X" }))...), true},
	} {
		for _, failed := range []bool{true, false} {
			l := &Ledger{}
			for i := range 3 * maxChanges {
				change := fmt.Sprintf("c%d", i)
				if i == 0 {
					change = "X"
				}
				l.Grant(holding("t", func(h *Holder) { h.Change, h.Target = change, "T"+strings.TrimPrefix(change, "X") }))
				if failed {
					l.Failed("t", "no", noon)
				}
				l.Release("t", noon)
				l.Prune(covering, func() []Candidate { return c.asking })
			}
			want := c.stays || !failed && name == "the tenant does"
			if !failed && name == "it asks for its template" {
				// Only a failure makes its template known.
				want = false
			}
			if got := l.Change("p", "X") != nil; got != want || len(l.Changes) != maxChanges {
				t.Errorf("%s, failed: %t: it stays: %t, %d changes", name, failed, got, len(l.Changes))
			}
		}
	}
}

// accomplice returns tasks of a namespace that ask for every change of TestAChangeThatOthersWaitFor but the first.
func accomplice(name string) (all []Candidate) {
	for i := 1; i < 3*maxChanges; i++ {
		all = append(all, waiting(name, func(c *Candidate) { c.Change = fmt.Sprintf("c%d", i) }))
	}
	return all
}

// Of two namespaces in which as many changes failed, it is the same one that loses the oldest.
func TestWhoseChangesGo(t *testing.T) {
	for range 20 {
		l := &Ledger{}
		for i := range maxChanges {
			namespace := []string{"a", "b"}[i%2]
			l.Changes = append(l.Changes, Change{Policy: "p", Name: fmt.Sprint(namespace, i), Failures: []Failure{{Namespace: namespace}}})
		}
		l.Changes = append(l.Changes, Change{Policy: "q", Name: "a0"})
		l.Grant(holding("z", func(h *Holder) { h.Change = "new" }))
		l.Prune(nil, none)
		if l.Change("p", "a0") != nil || l.Change("p", "b1") == nil || l.Change("q", "a0") == nil || len(l.Changes) != maxChanges+1 {
			t.Fatalf("%+v", l.Changes[:3])
		}
		l.Changes = append(l.Changes, Change{Policy: "p", Name: "more", Failures: []Failure{{Namespace: "b"}}}, Change{Policy: "p", Name: "most", Failures: []Failure{{Namespace: "b"}}})
		l.Grant(holding("y", func(h *Holder) { h.Change = "newer" }))
		l.Prune(nil, none)
		if l.Change("p", "b1") != nil || l.Change("p", "a2") == nil || l.Change("p", "new") == nil {
			t.Fatal("now b has more, and what a holder has stays")
		}
	}
}

const template = `{"spec":{"template":{"metadata":{"annotations":{"checksum/etcd-config":"%s","other":"%s"},"labels":{"l":"%s"}},"spec":{
"containers":[{"name":"agent","image":"agent:1"},{"name":"etcd","image":"%s","args":["--name=%s-0","--token=%s"],"resources":{"limits":{"cpu":"%s"}}}],
"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"%s"}}]}}}}`

func TestFingerprint(t *testing.T) {
	render := func(config, annotation, label, image, name, uid, cpu, claim string) []byte {
		return fmt.Appendf(nil, template, config, annotation, label, image, name, uid, cpu, claim)
	}
	names := Names{Etcd: "main", Namespace: "a", UID: "u1"}
	base := render("1", "1", "1", "etcd:1", "main", "u1", "1", "main")
	of := func(target []byte, current ...[]byte) string {
		t.Helper()
		f, err := Fingerprint(append(current, base)[0], target, names)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	image := of(render("1", "1", "1", "etcd:2", "main", "u1", "1", "main"))
	if of(base) != Restart || !strings.HasPrefix(image, "v1-") || len(image) != 19 {
		t.Errorf("%s, %s", of(base), image)
	}
	other := Names{Etcd: "b", Namespace: "x", UID: "u2"}
	same, err := Fingerprint(render("9", "7", "5", "etcd:1", "b", "u2", "1", "b"), render("9", "7", "5", "etcd:2", "b", "u2", "1", "b"), other)
	if err != nil || same != image {
		t.Errorf("the same change in another cluster: %s, want %s (%v)", same, image, err)
	}
	seen := map[string]string{"image": image}
	for name, target := range map[string][]byte{
		"another image": render("1", "1", "1", "etcd:3", "main", "u1", "1", "main"),
		"a config":      render("2", "1", "1", "etcd:1", "main", "u1", "1", "main"),
		"other config":  render("3", "1", "1", "etcd:1", "main", "u1", "1", "main"),
		"an annotation": render("1", "2", "1", "etcd:1", "main", "u1", "1", "main"),
		"a label":       render("1", "1", "2", "etcd:1", "main", "u1", "1", "main"),
		"an argument":   render("1", "1", "1", "etcd:1", "other", "u1", "1", "main"),
		"resources":     render("1", "1", "1", "etcd:1", "main", "u1", "2", "main"),
		"a claim":       render("1", "1", "1", "etcd:1", "main", "u1", "1", "main2"),
	} {
		f := of(target)
		for before, s := range seen {
			if s == f {
				t.Errorf("%s and %s are the same", before, name)
			}
		}
		seen[name] = f
	}
	for name, cpu := range map[string]string{"fewer resources": "500m", "resources without a number": "x"} {
		if of(render("1", "1", "1", "etcd:1", "main", "u1", cpu, "main")) == seen["resources"] {
			t.Errorf("%s are another change than more", name)
		}
	}
	if of(render("1", "1", "1", "etcd:1", "main", "u1", "3", "main")) != seen["resources"] || of(render("1", "3", "1", "etcd:1", "main", "u1", "1", "main")) != seen["an annotation"] {
		t.Error("how large a cluster is does not matter")
	}
	if of(render("1", "1", "1", "etcd:2", "main", "u1", "1", "main"), render("1", "1", "1", "etcd:0", "main", "u1", "1", "main")) == image {
		t.Error("from where matters")
	}
	// An argument with the cluster's names is added, and a container before the others.
	added := func(name, namespace, uid string) string {
		t.Helper()
		was := `{"containers":[{"name":"etcd","args":["x"],"image":"i"}]}`
		is := fmt.Sprintf(`{"containers":[{"name":"first","args":["--of=%s.%s.%s-x"],"image":"i"},{"name":"etcd","args":["x"],"image":"i"}]}`, name, namespace, uid)
		f, err := Fingerprint([]byte(was), []byte(is), Names{Etcd: name, Namespace: namespace, UID: uid})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	want := added("main", "a", "u1")
	for _, n := range [][3]string{{"b", "a", "u2"}, {"a-b", "a", "u3"}, {"a", "a-b", "u"}, {"y", "etcd", "u4"}} {
		if added(n[0], n[1], n[2]) != want {
			t.Errorf("%v: another change", n)
		}
	}
	if without, err := Fingerprint([]byte(`{"a":"main"}`), []byte(`{"a":"b"}`), Names{}); err != nil || without == want {
		t.Error(err)
	}
	moved, err := Fingerprint([]byte(`{"c":[{"name":"a","v":"1"},{"name":"b","v":"2"}]}`), []byte(`{"c":[{"name":"b","v":"2"},{"name":"a","v":"1"}]}`), Names{})
	if err != nil || moved != Restart {
		t.Errorf("the order of what has names does not matter: %s", moved)
	}
	for _, broken := range [][2]string{{"{", "{}"}, {"{}", "{"}} {
		if _, err := Fingerprint([]byte(broken[0]), []byte(broken[1]), names); err == nil {
			t.Error("it is no JSON")
		}
	}
	// Volumes are named after their clusters: the same template is the same in all of them, and so is the same change to what is mounted.
	for _, was := range []string{"{}", `{"volumeMounts":[{"name":"b","path":"1"},{"name":"%s","path":"1"}]}`} {
		seen := map[string]bool{}
		for _, name := range []string{"a", "c", "main"} {
			is := fmt.Sprintf(`{"volumeMounts":[{"name":"b","path":"1"},{"name":"%[1]s","path":"2"}],"volumes":[{"name":"%[1]s"}]}`, name)
			f, err := Fingerprint([]byte(strings.ReplaceAll(was, "%s", name)), []byte(is), Names{Etcd: name})
			if err != nil {
				t.Fatal(err)
			}
			seen[f] = true
		}
		if len(seen) != 1 {
			t.Errorf("%s: %v", was, seen)
		}
	}
	// A cluster whose name is a part of an image.
	named, err := Fingerprint(render("1", "1", "1", "etcd:1", "etcd", "u1", "1", "etcd"), render("1", "1", "1", "etcd:2", "etcd", "u1", "1", "etcd"), Names{Etcd: "etcd", Namespace: "etcd-a", UID: "u1"})
	if err != nil || named != image {
		t.Errorf("%s, want %s (%v)", named, image, err)
	}
}

// The same change is the same in a cluster that is named like its namespace, or in which one of both is called etcd, as a word of the template is.
// Names may stand side by side.
func TestFingerprintsWhereNamesAreWordsOfTheTemplate(t *testing.T) {
	const was, is = `{"args":["start-etcd"]}`, `{"args":["start-etcd","--etcd-data=/var/etcd","--url=%[1]s-0.%[1]s-peer.%[2]s.svc","--prefix=%[2]s/%[1]s/%[1]s","--name=prod_%[1]s_%[2]s"]}`
	seen := map[string][]Names{}
	for _, n := range []Names{{Etcd: "main", Namespace: "a"}, {Etcd: "a", Namespace: "a"}, {Etcd: "etcd", Namespace: "a"}, {Etcd: "main", Namespace: "etcd"}, {Etcd: "etcd", Namespace: "etcd"}, {Etcd: "etcd-main", Namespace: "etcd"}} {
		f, err := Fingerprint([]byte(was), fmt.Appendf(nil, is, n.Etcd, n.Namespace), n)
		if err != nil {
			t.Fatal(err)
		}
		seen[f] = append(seen[f], n)
	}
	if len(seen) != 1 {
		t.Errorf("%d changes: %v", len(seen), seen)
	}
}

// The same change is the same where a name begins a line of a value: it is quoted, and the sign for a new line ends in a letter.
func TestFingerprintsWithNamesInScripts(t *testing.T) {
	of := func(n Names) string {
		f, err := Fingerprint([]byte(`{}`), fmt.Appendf(nil, `{"args":["set -e\n%[1]s-client --new=%[2]s"]}`, n.Etcd, n.Namespace), n)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if a, b := of(Names{Etcd: "alpha", Namespace: "one"}), of(Names{Etcd: "beta", Namespace: "two"}); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

// A name is one as a whole word: beside a letter or a digit it is a part of another.
func TestFingerprintsWithNamesInWords(t *testing.T) {
	of := func(name, format string) string {
		t.Helper()
		f, err := Fingerprint([]byte(`{}`), fmt.Appendf(nil, `{"a":%q}`, fmt.Sprintf(format, name)), Names{Etcd: name})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for letters, same := range map[string]bool{"09azAZ": false, "/:@[`{": true} {
		for _, letter := range letters {
			for _, format := range []string{string(letter) + "%s", "%s" + string(letter), "-" + string(letter) + "%s"} {
				if (of("main", format) == of("other", format)) != same {
					t.Errorf("%q: want that it is the same change: %t", format, same)
				}
			}
		}
	}
}

// A fingerprint is the same in every version: ledgers and statuses have it, and a new one of a change would make it begin with canaries again.
func TestFingerprintsStay(t *testing.T) {
	for want, c := range map[string][2]string{
		"v1-32aaddd1580d7ffa": {`{"image":"etcd:1"}`, `{"image":"etcd:2"}`},
		"v1-c81d86ab595470a4": {`{"a":"b c"}`, `{"a":"b  c"}`},
		"v1-6bfe0cd96faf4c10": {`{}`, `{"a":"--name=main-0"}`},
		"v1-1e903cbaf89514bd": {`{"a":"b\nc"}`, `{"a":"b\nd"}`},
		"v1-fc286d6b20bb5ba4": {`{"resources":{"limits":{"cpu":"1"}}}`, `{"resources":{"limits":{"cpu":"2"}}}`},
		"v1-4ec067d150334386": {`{}`, `{"resources":{"limits":{"cpu":"1"}}}`},
		"v1-01654a0b6d5418d9": {`{"resources":{"limits":{"cpu":"1"}}}`, `{}`},
		"v1-bf2ebd5be3292c68": {`{"resources":{"claims":[{"name":"a","request":"x"}]}}`, `{"resources":{"claims":[{"name":"a","request":"y"}]}}`},
	} {
		if got, err := Fingerprint([]byte(c[0]), []byte(c[1]), Names{Etcd: "main", Namespace: "ns"}); err != nil || got != want {
			t.Errorf("%s, want %s (%v): %s", got, want, err, c)
		}
	}
}

// A tenant writes no value that makes their change look like another one.
func TestAValueThatLooksLikeAnotherDifference(t *testing.T) {
	of := func(before, after string) string {
		t.Helper()
		f, err := Fingerprint([]byte(before), []byte(after), Names{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	// The other one changes a value of the tenant, too.
	other := of(`{"affinity":"a","image":"m:1"}`, `{"affinity":"b","image":"m:2"}`)
	if forged := of(`{"affinity":"a"}`, `{"affinity":"b\n/image\u0000m:1\u0000m:2"}`); forged == other {
		t.Errorf("%s", forged)
	}
	// Nor is one that is marked for that taken for the other.
	if of(`{}`, `{"a":"b\n"}`) == of(`{}`, `{"a":"\"b\\n\""}`) {
		t.Error("a value is like its quotation")
	}
	// Nor are two that are marked, or is a value which separates for the one before it.
	if of(`{}`, `{"a":"b\n"}`) == of(`{}`, `{"a":"c\n"}`) || of(`{"a":""}`, `{"a":"\u0000"}`) == of(`{"a":"\u0000"}`, `{"a":""}`) {
		t.Error("two changes are the same")
	}
}

// A policy that has replaced another of its name, and may select other clusters, begins with canaries of its own. What failed stays
// paused.
func TestChangesOfAPolicyThatIsReplaced(t *testing.T) {
	l := Ledger{
		Policies: []Recorded{{Name: "p", UID: "1", Generation: 1}, {Name: "q", UID: "2", Generation: 1}},
		Changes: []Change{
			{Policy: "p", Name: "A", Passed: 1, Done: 3},
			{Policy: "p", Name: "B", Passed: 1, Done: 3, Resumed: 7, Failures: []Failure{{Etcd: "e"}}},
			{Policy: "p", Name: "C", Passed: 1, Done: 3},
			{Policy: "q", Name: "A", Passed: 1, Done: 3},
			{Policy: "q", Name: "C", Passed: 1, Done: 3},
		},
		Holders: []Holder{{Task: "t", Change: "A", Policies: []string{"p"}}},
	}
	if !l.Forget([]types.UID{"1"}) || len(l.Policies) != 1 {
		t.Fatalf("%+v", l.Policies)
	}
	if l.Change("p", "C") != nil || len(l.Changes) != 4 {
		t.Errorf("nothing asks for C, and nothing pauses it: %+v", l.Changes)
	}
	for _, c := range l.Changes {
		switch {
		case c.Policy == "p" && (c.Passed != 0 || c.Done != 0):
			t.Errorf("change %s has passed canaries of the policy before: %+v", c.Name, c)
		case c.Policy == "q" && (c.Passed != 1 || c.Done != 3):
			t.Errorf("another policy: %+v", c)
		case c.Name == "B" && (len(c.Failures) != 1 || c.Resumed != 7):
			t.Errorf("it is not paused any more: %+v", c)
		}
	}
	if l.Forget([]types.UID{"1"}) {
		t.Error("nothing is left to forget")
	}
}

// A template with which a change has succeeded is known to work, whichever change it was; where one failed, its template is known as well.
func TestTemplatesThatWork(t *testing.T) {
	l := &Ledger{Policies: []Recorded{{Name: "p"}, {Name: "q"}}}
	toward := func(target string) func(*Holder) { return func(h *Holder) { h.Target = target } }
	succeed := func(name string, changes ...func(*Holder)) {
		l.Grant(holding(name, changes...))
		l.Succeeded(types.UID(name), noon)
		l.Soaked(types.UID(name), noon)
	}
	succeed("a", toward("T"), func(h *Holder) { h.Policies = []string{"p", "gone"} })
	succeed("b", toward("T"))
	succeed("c")
	if l.unproven("p", "T") || !l.unproven("q", "T") || !l.unproven("p", "U") || l.unproven("p", "") || !l.unproven("gone", "T") || len(l.Recorded("p").Proven) != 1 {
		t.Errorf("%+v", l.Policies)
	}
	for i := range maxProven {
		succeed("d", toward(fmt.Sprint(i)))
	}
	if proven := l.Recorded("p").Proven; len(proven) != maxProven || !l.unproven("p", "T") || l.unproven("p", "0") {
		t.Errorf("%d: %v", len(proven), proven)
	}
	l.Grant(holding("e", toward("T")))
	l.Failed("e", "it crashes", noon)
	if f := l.Change("p", "A").Failures; len(f) != 1 || f[0].Target != "T" {
		t.Errorf("%+v", f)
	}
	in := situation(candidate(func(c *Candidate) { c.Target = "T" }))
	if h := Grant(in, "w1", Decision{}); h.Target != "T" {
		t.Errorf("%+v", h)
	}
}

// It stays known which tasks are over, however that came. One that has not started is not.
func TestTasksThatAreOver(t *testing.T) {
	l := &Ledger{}
	for _, name := range []string{"soaked", "failed", "changes nothing", "displaced", "withdrawn", "runs"} {
		l.Grant(holding(name, func(h *Holder) { h.Task = types.UID(name) }))
	}
	l.Succeeded("soaked", noon)
	l.Soaked("soaked", noon)
	l.Failed("failed", "it crashes", noon)
	if l.IsOver("failed") {
		t.Error("it runs")
	}
	l.Succeeded("failed", noon)
	l.Holder("changes nothing").Change = ""
	l.Succeeded("changes nothing", noon)
	l.Succeeded("displaced", noon)
	l.Grant(holding("next", func(h *Holder) { h.Etcd = "etcd-displaced" }))
	l.Withdraw("withdrawn")
	for name, over := range map[types.UID]bool{"soaked": true, "failed": true, "changes nothing": true, "displaced": true, "withdrawn": false, "runs": false, "next": false} {
		if l.IsOver(name) != over {
			t.Errorf("%s: %t", name, !over)
		}
	}
	for i := range maxOver {
		name := types.UID(fmt.Sprint(i))
		l.Grant(holding("x", func(h *Holder) { h.Task = name }))
		l.Release(name, noon)
	}
	if len(l.Over) != maxOver || l.IsOver("soaked") || !l.IsOver("0") {
		t.Errorf("%d are known", len(l.Over))
	}
}
