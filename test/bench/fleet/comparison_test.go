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
	c := comparison{Quiet: reactions{Rejected: []float64{0.01}, Resident: 100}, Attacked: reactions{Rejected: []float64{0.02}, Resident: 120, Missed: 1}}
	g.Expect(c.table()).To(And(ContainSubstring("| a task is rejected, 99 % | 10 ms | 0 ms | 20 ms | 2.00 |"), ContainSubstring("| resident memory of the operator, maximum | 100 MiB | 0 MiB | 120 MiB | 1.20 |")))
	met := map[string]bool{}
	for _, target := range c.targets() {
		met[target.Name] = target.Met
	}
	g.Expect(met).To(HaveKeyWithValue("a task is rejected, 99 %", false))
	g.Expect(met).To(HaveKeyWithValue("resident memory of the operator, maximum", true))
	g.Expect(met).To(HaveKeyWithValue("reactions that failed or took more than a minute", false))
}
