// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package diagnosetest writes and reads recorded inputs of diagnoses: a folder with the input, and the metrics of each member at both
// samples as etcd served them, without what no rule reads.
package diagnosetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
)

// Recording is a recorded input.
type Recording struct {
	// About says what was done, on which version of etcd, and whether something of it was made up.
	About string
	// Expect is the cause that a diagnosis has to name first; empty if nothing is wrong.
	Expect diagnose.Cause
	Input  diagnose.Input
}

const inputFile = "input.json"

// scrapes are the metrics of a member, by the names of their files.
func scrapes(m *diagnose.Member) map[string]*diagnose.Metrics {
	return map[string]*diagnose.Metrics{
		m.Name + ".1.prom": &m.First.Metrics, m.Name + ".2.prom": &m.Second.Metrics,
		m.Name + ".kubelet.1.prom": &m.First.Kubelet, m.Name + ".kubelet.2.prom": &m.Second.Kubelet,
		m.Name + ".agent.1.prom": &m.First.Agent, m.Name + ".agent.2.prom": &m.Second.Agent,
	}
}

// Save writes a recording into a folder.
func Save(folder string, r Recording) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("saving a recording: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("saving a recording: %w", err)
	}
	err = os.WriteFile(filepath.Join(folder, inputFile), append(raw, '\n'), 0o644)
	for i := range r.Input.Members {
		for name, metrics := range scrapes(&r.Input.Members[i]) {
			if len(*metrics) > 0 {
				err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(text(*metrics)), 0o644))
			}
		}
	}
	return err
}

// text returns metrics in the format that ParseMetrics reads, without the histograms that have observed nothing: they say no more
// than that.
func text(metrics diagnose.Metrics) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		kind := "gauge"
		if slices.ContainsFunc(metrics[name], func(s diagnose.Series) bool { return len(s.Buckets) > 0 }) {
			kind = "histogram"
		}
		lines := ""
		for _, s := range metrics[name] {
			if kind == "gauge" {
				lines += name + labels(s.Labels) + strings.TrimSuffix(number(s.Value), "\n") + at(s)
				continue
			}
			if s.Count == 0 {
				continue
			}
			for _, b := range s.Buckets {
				with := maps.Clone(s.Labels)
				with["le"] = strings.TrimSpace(number(b.Bound))
				lines += name + "_bucket" + labels(with) + number(b.Count)
			}
			lines += name + "_sum" + labels(s.Labels) + number(s.Sum) + name + "_count" + labels(s.Labels) + number(s.Count)
		}
		if lines != "" {
			out.WriteString("# TYPE " + name + " " + kind + "\n" + lines)
		}
	}
	return out.String()
}

func labels(of map[string]string) string {
	if len(of) == 0 {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s=%q", name, of[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// at is when a series was measured, and ends a line.
func at(s diagnose.Series) string {
	if s.At == 0 {
		return "\n"
	}
	return fmt.Sprintf(" %.0f\n", 1000*s.At)
}

// number ends a line.
func number(n float64) string { return " " + strconv.FormatFloat(n, 'g', -1, 64) + "\n" }

// Load reads a recording.
func Load(folder string) (Recording, error) {
	var r Recording
	raw, err := os.ReadFile(filepath.Join(folder, inputFile))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading a recording: %w", err)
	}
	for i := range r.Input.Members {
		for name, to := range scrapes(&r.Input.Members[i]) {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil {
				*to, err = diagnose.ParseMetrics(string(text), nil)
			}
			if err != nil {
				return r, fmt.Errorf("reading a recording: %w", err)
			}
		}
	}
	return r, nil
}
