// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/attack"
	"github.com/etcd-foreman/etcd-foreman/test/bench/target"
)

// maxRatio is how much worse a figure may be during the attack.
const maxRatio = 1.2

// comparison is what was measured while all was quiet, beside an honest tenant with as many Etcds as the attacker will have, while the
// objects of an attack were created, and during the attack. Compared with the quiet figures, the attack also costs what any tenant of that
// size does: their Etcds are in the operator's cache, and the API server has more to do. Compared with the honest tenant, it is what the
// attack alone costs.
type comparison struct {
	Quiet    reactions               `json:"quiet"`
	Honest   reactions               `json:"honest"`
	Begins   reactions               `json:"begins"`
	Attacked reactions               `json:"attacked"`
	Means    map[string]attack.Tally `json:"means,omitempty"`
	// Neighbors is how many Etcds that tenant has.
	Neighbors int `json:"neighbors"`
}

// percentile returns the least of some sorted figures that a share of them does not exceed; 0 if there are none.
func percentile[T float64 | time.Duration](sorted []T, share float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

// row is a figure of each.
type row struct {
	name string
	// quiet, honest, begins and attacked.
	quiet, honest, begins, attacked float64
	unit                            string
	// target: it must not be worse than maxRatio, compared with either.
	target bool
}

func (c *comparison) rows() []row {
	of := func(name, unit string, target bool, figure func(*reactions) float64) row {
		return row{name, figure(&c.Quiet), figure(&c.Honest), figure(&c.Begins), figure(&c.Attacked), unit, target}
	}
	var all []row
	for _, some := range []struct {
		name   string
		of     func(*reactions) []float64
		target bool
	}{
		{"a task is rejected", func(r *reactions) []float64 { return r.Rejected }, true},
		{"a changed spec is observed", func(r *reactions) []float64 { return r.Observed }, true},
		{"a changed template: the first pod is replaced", func(r *reactions) []float64 { return r.Replaced }, true},
		{"the API server writes an object", func(r *reactions) []float64 { return r.Written }, false},
	} {
		all = append(all,
			of(some.name+", median", "ms", false, func(r *reactions) float64 { return 1000 * percentile(some.of(r), 0.5) }),
			of(some.name+", 99 %", "ms", some.target, func(r *reactions) float64 { return 1000 * percentile(some.of(r), 0.99) }))
	}
	load := func(figure func(Load) float64) func(*reactions) float64 {
		return func(r *reactions) float64 {
			if r.Load == nil {
				return 0
			}
			return figure(*r.Load)
		}
	}
	return append(all,
		of("reactions measured", "", false, func(r *reactions) float64 { return float64(r.count()) }),
		of("reactions that failed or took more than a minute", "", false, func(r *reactions) float64 { return float64(r.Missed) }),
		of("resident memory of the operator, maximum", "MiB", true, func(r *reactions) float64 { return r.Resident }),
		of("cores used by the operator", "", false, load(func(l Load) float64 { return l.Programs[operatorProgram] })),
		of("cores used by the API server", "", false, load(func(l Load) float64 { return l.Programs["kube-apiserver"] })),
		of("cores used by the benchmark: clients, kubelets, members, the attacker", "", false, load(func(l Load) float64 { return l.Programs[ownProgram()] })),
		of(fmt.Sprintf("busy cores of %d", runtime.NumCPU()), "", false, load(func(l Load) float64 { return l.Machine })),
		of("requests of the operator per second", "", false, load(func(l Load) float64 { return l.Requests / l.Seconds })))
}

// ownProgram is the name of this program as Linux has it, which is short.
func ownProgram() string {
	name := filepath.Base(os.Args[0])
	return name[:min(len(name), 15)]
}

// table returns a table in Markdown.
func (c *comparison) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "| for healthy Etcds | quiet | beside %d honest Etcds | the attack begins | attacked | to quiet | to honest |\n| --- | --- | --- | --- | --- | --- | --- |\n", c.Neighbors)
	for _, r := range c.rows() {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %.2f | %.2f |\n", r.name, r.show(r.quiet), r.show(r.honest), r.show(r.begins), r.show(r.attacked), r.attacked/r.quiet, r.attacked/r.honest)
	}
	if c.Neighbors > 0 {
		each := func(r *reactions) float64 { return 1024 * (r.Resident - c.Quiet.Resident) / float64(c.Neighbors) }
		fmt.Fprintf(&out, "\nFor each of the %d Etcds, the operator takes %.0f KiB while they are honest, and %.0f KiB, with all else that the attacker makes, during the attack.\n", c.Neighbors, each(&c.Honest), each(&c.Attacked))
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
			all = append(all,
				target.New(r.name, r.unit, r.attacked, maxRatio*r.quiet).Against(r.quiet),
				target.New(r.name+", to honest", r.unit, r.attacked, maxRatio*r.honest).Against(r.honest))
		}
	}
	return append(all, target.New("reactions that failed or took more than a minute", "", float64(c.Attacked.Missed), float64(c.Quiet.Missed)))
}
