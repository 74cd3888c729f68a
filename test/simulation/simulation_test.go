// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// A run takes some ten megabytes, and one goroutine of it runs at a time: threads would only wake each other.
	debug.SetGCPercent(2000)
	debug.SetMemoryLimit(768 << 20)
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// duration reads a time from the environment; 0 for none.
func duration(t *testing.T, name string) time.Duration {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// processor returns the time of the processor that this process has taken, with that of the system.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Whatever happens, nothing breaks, and all ends once the faults have ended. SIM_SEED runs one seed, SIM_SEEDS so many, from SIM_FIRST on, and SIM_FOR
// ends it after a time, SIM_CPU after one of the processor. The first that breaks something ends the test, unless SIM_ON is set, and its trace and its story are written.
func TestSimulation(t *testing.T) {
	if seen := simulate(t, draw().Script, 3); duration(t, "SIM_FOR") >= time.Hour {
		complete(t, seen)
	}
}

// So it is with several Etcds and a policy for their fleet.
func TestFleet(t *testing.T) { simulate(t, draw().Fleet, 1) }

// draw is how scripts are drawn: with SIM_PLAIN set, for comparison, each user and each fault may come at any time.
func draw() Draw { return os.Getenv("SIM_PLAIN") == "" }

func simulate(t *testing.T, scriptOf func(seed uint64) Script, otherwise uint64) census {
	t.Helper()
	first, seeds := number(t, "SIM_FIRST", 1), number(t, "SIM_SEEDS", otherwise)
	if seed := number(t, "SIM_SEED", 0); seed != 0 {
		first, seeds = seed, 1
	}
	begun, sum, limit, most := time.Now(), Result{Seen: census{}}, duration(t, "SIM_FOR"), duration(t, "SIM_CPU")
	for seed := first; seed < first+seeds; seed++ {
		if limit > 0 && time.Since(begun) > limit || most > 0 && processor() > most {
			seeds = seed - first
			break
		}
		script := scriptOf(seed)
		r := Run(t, script)
		for _, broken := range r.Broken {
			t.Errorf("seed %d: %s", seed, broken)
		}
		if seed%twice == 0 {
			repeats(t, script, r)
		}
		if len(r.Broken) > 0 || seeds == 1 {
			write(t, r)
		}
		if len(r.Broken) > 0 && os.Getenv("SIM_SHRINK") != "" {
			shrink(t, script, r)
		}
		if t.Failed() && os.Getenv("SIM_ON") == "" {
			return nil
		}
		sum.Operations, sum.Faulted, sum.Lasted = sum.Operations+r.Operations, sum.Faulted+r.Faulted, sum.Lasted+r.Lasted
		sum.Seen.addAll("fault", r.Injected)
		for kind, counted := range r.Seen {
			sum.Seen.addAll(kind, counted)
		}
	}
	took, cost := time.Since(begun), processor()
	t.Logf("%d seeds, %s of virtual time, %d operations, %d of them with faults, in %s: %.0f of these a minute, and %s of the processor each", seeds, sum.Lasted.Round(time.Second), sum.Operations, sum.Faulted, took.Round(time.Millisecond),
		float64(sum.Faulted)/took.Minutes(), (cost / time.Duration(max(sum.Faulted, 1))).Round(time.Millisecond/10))
	for _, kind := range []string{"fault", "task", "guard", "step", "code", "reason"} {
		for _, name := range sum.Seen.names(kind) {
			t.Logf("%6d times: %s %s", sum.Seen[kind][name], kind, name)
		}
	}
	for kind, names := range known(t) {
		t.Logf("never: %s %s", kind, strings.Join(sum.Seen.lacks(kind, names), ", "))
	}
	return sum.Seen
}

// reads are what only asks for something: the trace of a seed is told without. minor is what a story is told without as well.
var (
	reads = []string{"get ", "list ", "status of ", "member list of ", "confirmed member list of ", "has looked", "shows ", "read at ", "database of ", "alarms of "}
	minor = append([]string{"update status ", "patch status ", "apply ", "  refused: ", "  fault: ", "what was late comes", "gives up", "failed: "}, reads...)
)

// write writes the trace of a run to a file, the whole with SIM_ALL, and its story to another one.
func write(t *testing.T, r Result) {
	t.Helper()
	skips := reads
	if os.Getenv("SIM_ALL") != "" {
		skips = nil
	}
	t.Logf("seed %d lasted %s, its trace has %d lines and the hash %016x: %s, and in short: %s", r.Script.Seed, r.Lasted, r.Trace.Len(), r.Trace.Hash(), tell(t, r, "trace", skips), tell(t, r, "story", minor))
}

func tell(t *testing.T, r Result, as string, skips []string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(os.TempDir(), fmt.Sprintf("simulation-%d.%s", r.Script.Seed, as)))
	if err != nil {
		t.Fatal(err)
	}
	buffer := bufio.NewWriter(file)
	err = errors.Join(r.Trace.Write(buffer, func(what string) bool {
		return slices.ContainsFunc(skips, func(begins string) bool { return strings.HasPrefix(what, begins) })
	}), buffer.Flush(), file.Close())
	if err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// shrink writes the shortest script that is found to break the same, with its trace and story.
func shrink(t *testing.T, script Script, r Result) {
	t.Helper()
	runs := 0
	short := script.Shrink(func(s Script) bool {
		runs++
		again := Run(t, s)
		if again.Kind() != r.Kind() {
			return false
		}
		r = again
		return true
	})
	file := filepath.Join(os.TempDir(), fmt.Sprintf("simulation-%d.txt", script.Seed))
	if err := os.WriteFile(file, fmt.Appendf(nil, "# %s\n%s", r.Broken[0], short), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("after %d runs, this is left of the script, in %s:\n%s", runs, file, short)
	write(t, r)
}

// twice is which of the seeds run twice.
const twice = 50

// repeats fails the test if a script does not give the same run again.
func repeats(t *testing.T, script Script, r Result) {
	t.Helper()
	if again := Run(t, script); again.Trace.Hash() != r.Trace.Hash() {
		t.Errorf("seed %d gives two runs: %s", script.Seed, r.Trace.Differ(again.Trace))
	}
}

func TestSeedsRepeat(t *testing.T) {
	for seed := range uint64(2) {
		repeats(t, Swarm.Script(seed), Run(t, Swarm.Script(seed)))
	}
}

// What broke something before does not again. The scripts are what was left of seeds once they had been shrunk.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, err := ParseScript(string(text))
			if err != nil {
				t.Fatal(err)
			}
			r := Run(t, script)
			t.Logf("%d operations, and these faults: %v", r.Operations, r.Injected)
			for _, broken := range r.Broken {
				t.Error(broken)
			}
			if t.Failed() {
				write(t, r)
			}
		})
	}
}

func TestScriptsAreReadAsTheyAreWritten(t *testing.T) {
	script := Swarm.Script(7)
	read, err := ParseScript("# why\n" + script.String())
	if err != nil || read.String() != script.String() || len(read.Faults) == 0 || len(read.Operations) == 0 {
		t.Errorf("%v: %s", err, read)
	}
	for _, text := range []string{"anything else", "fault at 1s for 1s, 1: of no such name", "user waits 1s after, 1: does what no user does"} {
		if _, err := ParseScript(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// Of all that happens, what matters is left.
func TestShrink(t *testing.T) {
	script := Swarm.Script(7)
	matter := script.Faults[len(script.Faults)/2]
	short := script.Shrink(func(s Script) bool { return slices.Contains(s.Faults, matter) && len(s.Operations) >= 2 })
	if len(short.Faults) != 1 || short.Faults[0] != matter || len(short.Operations) != 2 {
		t.Errorf("%s", short)
	}
}

// Without a fault, even one that never begins, what happens at one moment happens in another order: then another seed may break in the same way.
func TestShrinkByAnotherSeed(t *testing.T) {
	script := Swarm.Script(7)
	short := script.Shrink(func(s Script) bool {
		return len(s.Faults) == len(script.Faults) || s.Seed != script.Seed && len(s.Faults) >= len(script.Faults)-2
	})
	if len(short.Faults) != len(script.Faults)-2 || short.Seed == script.Seed {
		t.Errorf("%s", short)
	}
}

// A swarm has all users and all faults, and each of its seeds half of them at most. A seed of a plain draw has no such limit.
func TestSwarm(t *testing.T) {
	seeds := map[string]int{}
	for seed := range uint64(200) {
		users, faults := kinds(Swarm.Script(seed))
		if len(users) > (len(wishes)+1)/2 || len(faults) > (len(troubles)+1)/2 {
			t.Errorf("seed %d has %d users and %d faults", seed, len(users), len(faults))
		}
		for name := range users {
			seeds[name]++
		}
		for name := range faults {
			seeds[name]++
		}
	}
	for _, w := range wishes {
		if seeds[w.name] < 10 {
			t.Errorf("of 200 seeds, %d have a user who %s", seeds[w.name], w.name)
		}
	}
	for _, k := range troubles {
		if seeds[k.name] < 40 {
			t.Errorf("of 200 seeds, %d have the fault %s", seeds[k.name], k.name)
		}
	}
}

func kinds(s Script) (users, faults map[string]bool) {
	users, faults = map[string]bool{}, map[string]bool{}
	for _, o := range s.Operations {
		users[o.Name] = true
	}
	for _, f := range s.Faults {
		faults[f.Name] = true
	}
	return users, faults
}
