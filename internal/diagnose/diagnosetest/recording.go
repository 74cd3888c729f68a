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
	"os"
	"path/filepath"
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

// Save writes a recording into a folder. The texts of scrapes are by the names of their files, such as m0.1.prom.
func Save(folder string, r Recording, texts map[string]string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("saving a recording: %w", err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("saving a recording: %w", err)
	}
	err = os.WriteFile(filepath.Join(folder, inputFile), append(raw, '\n'), 0o644)
	for name, text := range texts {
		if text != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(withoutEmpty(text)), 0o644))
		}
	}
	return err
}

// withoutEmpty returns metrics without the series of histograms that have observed nothing: they say no more than that.
func withoutEmpty(text string) string {
	var kept strings.Builder
	var series []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(name, "_bucket{") || strings.HasSuffix(name, "_sum") || strings.Contains(name, "_sum{"):
			series = append(series, line)
			continue
		case strings.HasSuffix(name, "_count") || strings.Contains(name, "_count{"):
			if value != "0" {
				kept.WriteString(strings.Join(append(series, line), ""))
			}
			series = nil
			continue
		}
		kept.WriteString(line)
	}
	return kept.String()
}

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
