// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestPercentile(t *testing.T) {
	g := NewWithT(t)
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	g.Expect(percentile(hundred, 0.99)).To(Equal(99.0))
	g.Expect(percentile(hundred, 0.5)).To(Equal(50.0))
	g.Expect(percentile(hundred[:3], 0.99)).To(Equal(3.0))
	g.Expect(percentile([]float64(nil), 0.99)).To(BeZero())
}

func TestComparison(t *testing.T) {
	g := NewWithT(t)
	c := comparison{
		Neighbors: 10, Quiet: reactions{Rejected: []float64{0.01}, Resident: 100}, Honest: reactions{Rejected: []float64{0.016}, Resident: 110},
		Attacked: reactions{Rejected: []float64{0.02}, Resident: 120, Missed: 1},
	}
	g.Expect(c.table()).To(And(
		ContainSubstring("| for healthy Etcds | quiet | beside 10 honest Etcds |"),
		ContainSubstring("| a task is rejected, 99 % | 10 ms | 16 ms | 0 ms | 20 ms | 2.00 | 1.25 |"),
		ContainSubstring("| resident memory of the operator, maximum | 100 MiB | 110 MiB | 0 MiB | 120 MiB | 1.20 | 1.09 |"),
		ContainSubstring("takes 1024 KiB while they are honest, and 2048 KiB,")))
	met := map[string]bool{}
	for _, target := range c.targets() {
		met[target.Name] = target.Met
	}
	for name, want := range map[string]bool{
		"a task is rejected, 99 %": false, "a task is rejected, 99 %, to honest": false, "resident memory of the operator, maximum": true,
		"resident memory of the operator, maximum, to honest": true, "reactions that failed or took more than a minute": false,
	} {
		g.Expect(met).To(HaveKeyWithValue(name, want))
	}
	c.Honest.Rejected[0], c.Honest.Resident = 0.018, 90
	for _, target := range c.targets() {
		met[target.Name] = target.Met
	}
	g.Expect(met).To(HaveKeyWithValue("a task is rejected, 99 %, to honest", true))
	g.Expect(met).To(HaveKeyWithValue("resident memory of the operator, maximum, to honest", false))
}
