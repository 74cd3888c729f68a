// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
)

// wasteVariable says what a child of TestMemoryIsLimited does.
const wasteVariable = "TEST_WASTE"

var wasted []byte

// deep recurses until its stack has many bytes.
func deep(levels int) byte {
	var frame [1 << 10]byte
	if levels > 0 {
		frame[levels%len(frame)] = deep(levels - 1)
	}
	return frame[0] + frame[len(frame)-1]
}

func waste(kind string) {
	release, err := limitMemory()
	if err != nil {
		os.Exit(3)
	}
	if kind == "released" {
		if err := release(); err != nil {
			os.Exit(4)
		}
	}
	if kind == "stack" {
		deep(128 << 10)
	} else {
		// Go zeroes nothing that comes from the kernel, so this takes address space and no memory.
		wasted = make([]byte, maxMemory+(1<<30))
	}
	os.Exit(0)
}

// A restore that takes too much memory ends, and not its node; what follows a restore is not limited.
func TestMemoryIsLimited(t *testing.T) {
	if kind := os.Getenv(wasteVariable); kind != "" {
		waste(kind)
	}
	for kind, want := range map[string]string{"heap": "out of memory", "stack": "stack overflow", "released": ""} {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			child := exec.Command(os.Args[0], "-test.run=^TestMemoryIsLimited$")
			child.Env = append(os.Environ(), wasteVariable+"="+kind)
			out, err := child.CombinedOutput()
			if want == "" {
				g.Expect(err).NotTo(HaveOccurred(), string(out))
				return
			}
			g.Expect(err).To(HaveOccurred())
			g.Expect(string(out)).To(ContainSubstring(want))
		})
	}
}
