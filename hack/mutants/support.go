// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

// The environment of a test binary: the ID of the active mutant, and the file that lists the mutants that were reached.
const (
	envActive  = "MUTANT"
	envReached = "MUTANTS_REACHED"
)

// support is the source of the package that mutated files import. It exists in the overlay alone.
const support = `// Package mutant selects the active mutant.
package mutant

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

var (
	active, _ = strconv.Atoi(os.Getenv("MUTANT"))
	list      = os.Getenv("MUTANTS_REACHED")
	mu        sync.Mutex
	reached   [1 << 16]atomic.Bool
)

// Is reports whether a mutant is active.
func Is(id int) bool {
	if list != "" && !reached[id].Load() {
		reach(id)
	}
	return id == active
}

func reach(id int) {
	mu.Lock()
	defer mu.Unlock()
	if reached[id].Swap(true) {
		return
	}
	file, err := os.OpenFile(list, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := file.WriteString(strconv.Itoa(id) + "\n"); err != nil {
		panic(err)
	}
	if err := file.Close(); err != nil {
		panic(err)
	}
}

// Pick returns the other value if a mutant is active.
func Pick[T any](id int, other, value T) T {
	if Is(id) {
		return other
	}
	return value
}

// Zero returns the zero value if a mutant is active.
func Zero[T any](id int, value T) T {
	if Is(id) {
		return *new(T)
	}
	return value
}
`
