// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

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

// Whatever happens, nothing breaks, and all ends once the faults have ended. SIM_SEED runs one seed and prints its trace, SIM_SEEDS runs so many, SIM_FIRST is the first.
func TestSimulation(t *testing.T) {
	if seed := number(t, "SIM_SEED", 0); seed != 0 {
		judged(t, seed, Run(t, seed), true)
		return
	}
	begun, first := time.Now(), number(t, "SIM_FIRST", 1)
	seeds, lines, operations, faulted := number(t, "SIM_SEEDS", 3), 0, 0, 0
	injected := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		r := Run(t, seed)
		judged(t, seed, r, false)
		lines, operations, faulted = lines+r.Trace.Len(), operations+r.Operations, faulted+r.Faulted
		for name, n := range r.Injected {
			injected[name] += n
		}
	}
	took := time.Since(begun)
	t.Logf("%d seeds, %d operations, %d of them with faults, %d lines, in %s: %.0f faulted operations a minute", seeds, operations, faulted, lines, took.Round(time.Millisecond), float64(faulted)/took.Minutes())
	t.Logf("faults: %v", injected)
}

// judged fails the test if a seed broke something, and writes its trace.
func judged(t *testing.T, seed uint64, r Result, always bool) {
	t.Helper()
	for _, broken := range r.Broken {
		t.Errorf("seed %d: %s", seed, broken)
	}
	if !always && len(r.Broken) == 0 {
		return
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("simulation-%d.trace", seed))
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	buffer := bufio.NewWriter(file)
	if err := r.Trace.Write(buffer); err != nil {
		t.Fatal(err)
	}
	if err := buffer.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d lasted %s, its trace has %d lines and the hash %016x: %s", seed, r.Lasted, r.Trace.Len(), r.Trace.Hash(), path)
}

// The same seed gives the same run.
func TestSeedsRepeat(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		a, b := Run(t, seed), Run(t, seed)
		if a.Trace.Hash() != b.Trace.Hash() {
			t.Errorf("seed %d gives two runs: %s", seed, a.Trace.Differ(b.Trace))
		}
	}
}
