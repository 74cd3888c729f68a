// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/attack"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

// maxRatio is how much worse a figure may be during the attack.
const maxRatio = 1.2

// comparison is what was measured while all was quiet, and during an attack.
type comparison struct {
	Quiet    reactions               `json:"quiet"`
	Attacked reactions               `json:"attacked"`
	Means    map[string]attack.Tally `json:"means,omitempty"`
}

// percentile returns the least of some sorted figures that a share of them does not exceed; 0 if there are none.
func percentile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

// row is a figure of both.
type row struct {
	name            string
	quiet, attacked float64
	unit            string
	// target: it must not be worse than maxRatio.
	target bool
}

func (c *comparison) rows() []row {
	q, a := &c.Quiet, &c.Attacked
	var all []row
	for _, some := range []struct {
		name            string
		quiet, attacked []float64
		target          bool
	}{
		{"a task is rejected", q.Rejected, a.Rejected, true},
		{"a changed spec is observed", q.Observed, a.Observed, true},
		{"a changed template: the first pod is replaced", q.Replaced, a.Replaced, true},
		{"the API server writes an object", q.Written, a.Written, false},
	} {
		all = append(all,
			row{some.name + ", median", 1000 * percentile(some.quiet, 0.5), 1000 * percentile(some.attacked, 0.5), "ms", false},
			row{some.name + ", 99 %", 1000 * percentile(some.quiet, 0.99), 1000 * percentile(some.attacked, 0.99), "ms", some.target})
	}
	all = append(all,
		row{"reactions measured", float64(q.count()), float64(a.count()), "", false},
		row{"reactions that failed or took more than a minute", float64(q.Missed), float64(a.Missed), "", false},
		row{"resident memory of the operator, maximum", q.Resident, a.Resident, "MiB", true})
	if q.Load != nil && a.Load != nil {
		all = append(all,
			row{"cores used by the operator", q.Load.Programs[operatorProgram], a.Load.Programs[operatorProgram], "", false},
			row{"cores used by the API server", q.Load.Programs["kube-apiserver"], a.Load.Programs["kube-apiserver"], "", false},
			row{"requests of the operator per second", q.Load.Requests / q.Load.Seconds, a.Load.Requests / a.Load.Seconds, "", false})
	}
	return all
}

// table returns a table in Markdown.
func (c *comparison) table() string {
	var out strings.Builder
	out.WriteString("| for healthy Etcds | quiet | attacked | ratio |\n| --- | --- | --- | --- |\n")
	for _, r := range c.rows() {
		fmt.Fprintf(&out, "| %s | %s | %s | %.2f |\n", r.name, r.show(r.quiet), r.show(r.attacked), r.attacked/r.quiet)
	}
	return out.String()
}

func (r row) show(v float64) string {
	if r.unit == "" && v != math.Trunc(v) {
		return fmt.Sprintf("%.2f", v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.0f %s", v, r.unit))
}

// targets are the ratios.
func (c *comparison) targets() []target.Target {
	var all []target.Target
	for _, r := range c.rows() {
		if r.target {
			all = append(all, target.New(r.name, r.unit, r.attacked, maxRatio*r.quiet).Against(r.quiet))
		}
	}
	return append(all, target.New("reactions that failed or took more than a minute", "", float64(c.Attacked.Missed), float64(c.Quiet.Missed)))
}
