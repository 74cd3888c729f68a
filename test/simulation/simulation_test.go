// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
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

// Whatever happens, nothing breaks, and all ends once the faults have ended. SIM_SEED runs one seed, SIM_SEEDS so many, from SIM_FIRST on. The first that
// breaks something ends the test, and its trace is written.
func TestSimulation(t *testing.T) {
	first, seeds := number(t, "SIM_FIRST", 1), number(t, "SIM_SEEDS", 3)
	if seed := number(t, "SIM_SEED", 0); seed != 0 {
		first, seeds = seed, 1
	}
	begun, sum := time.Now(), Result{Injected: map[string]int{}}
	for seed := first; seed < first+seeds; seed++ {
		r := Run(t, seed)
		for _, broken := range r.Broken {
			t.Errorf("seed %d: %s", seed, broken)
		}
		if seed%twice == 0 {
			repeats(t, seed, r)
		}
		if t.Failed() || seeds == 1 {
			write(t, seed, r)
		}
		if t.Failed() {
			return
		}
		sum.Operations, sum.Faulted, sum.Lasted = sum.Operations+r.Operations, sum.Faulted+r.Faulted, sum.Lasted+r.Lasted
		for name, n := range r.Injected {
			sum.Injected[name] += n
		}
	}
	took := time.Since(begun)
	t.Logf("%d seeds, %s of virtual time, %d operations, %d of them with faults, in %s: %.0f of these a minute", seeds, sum.Lasted.Round(time.Second), sum.Operations, sum.Faulted, took.Round(time.Millisecond), float64(sum.Faulted)/took.Minutes())
	for _, name := range slices.Sorted(maps.Keys(sum.Injected)) {
		t.Logf("%6d times: %s", sum.Injected[name], name)
	}
}

// reads are what only asks for something: the trace of a seed is told without.
var reads = []string{"get ", "list ", "status of ", "member list of ", "has looked", "shows "}

// write writes the trace of a seed to a file: the whole with SIM_ALL.
func write(t *testing.T, seed uint64, r Result) {
	t.Helper()
	file, err := os.Create(filepath.Join(os.TempDir(), fmt.Sprintf("simulation-%d.trace", seed)))
	if err != nil {
		t.Fatal(err)
	}
	buffer := bufio.NewWriter(file)
	err = errors.Join(r.Trace.Write(buffer, func(what string) bool {
		return os.Getenv("SIM_ALL") == "" && slices.ContainsFunc(reads, func(begins string) bool { return strings.HasPrefix(what, begins) })
	}), buffer.Flush(), file.Close())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d lasted %s, its trace has %d lines and the hash %016x: %s", seed, r.Lasted, r.Trace.Len(), r.Trace.Hash(), file.Name())
}

// twice is which of the seeds run twice.
const twice = 50

// repeats fails the test if a seed does not give the same run again.
func repeats(t *testing.T, seed uint64, r Result) {
	t.Helper()
	if again := Run(t, seed); again.Trace.Hash() != r.Trace.Hash() {
		t.Errorf("seed %d gives two runs: %s", seed, r.Trace.Differ(again.Trace))
	}
}

func TestSeedsRepeat(t *testing.T) {
	for seed := range uint64(2) {
		repeats(t, seed, Run(t, seed))
	}
}
