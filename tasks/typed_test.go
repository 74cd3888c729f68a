// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

type dance struct {
	Steps int    `json:"steps"`
	Name  string `json:"name,omitempty"`
}

func (d *dance) Default() { d.Steps = 3 }

func (d *dance) Validate() error {
	if d.Steps < 1 {
		return errors.New("steps has to be at least 1")
	}
	return nil
}

// dancer answers with what it is given.
type dancer struct {
	cleaned []Task
}

func (d *dancer) WorkKey(_ context.Context, task Typed[dance]) (string, error) {
	return task.Config.Name, nil
}

func (d *dancer) Admit(_ context.Context, task Typed[dance]) (Verdict, error) {
	return Verdict{Message: "admit " + task.Config.Name}, nil
}

func (d *dancer) Execute(_ context.Context, task Typed[dance]) (Verdict, error) {
	return Verdict{Message: "execute " + task.Config.Name}, nil
}

func (d *dancer) Superseded(_ context.Context, task Typed[dance]) (string, error) {
	return "superseded " + task.Config.Name, nil
}

func (d *dancer) Perform(_ context.Context, _ Task, step Step) error {
	return errors.New(step.Operation)
}

func (d *dancer) Cleanup(_ context.Context, task Task) error {
	d.cleaned = append(d.cleaned, task)
	return nil
}

// A handler gets its config decoded, with defaults.
func TestTyped(t *testing.T) {
	g := NewWithT(t)
	d := &dancer{}
	h := For(d)
	config, err := h.Decode("name: tango")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config).To(Equal(dance{Steps: 3, Name: "tango"}))
	task := Task{Config: config}
	g.Expect(h.WorkKey(t.Context(), task)).To(Equal("tango"))
	g.Expect(h.Superseded(t.Context(), task)).To(Equal("superseded tango"))
	g.Expect(h.Admit(t.Context(), task)).To(Equal(Verdict{Message: "admit tango"}))
	g.Expect(h.Execute(t.Context(), task)).To(Equal(Verdict{Message: "execute tango"}))
	g.Expect(h.Perform(t.Context(), task, Step{Operation: "turn"})).To(MatchError("turn"))
	// A task that is for an earlier Etcd is cleaned up after without its config.
	g.Expect(h.Cleanup(t.Context(), Task{})).To(Succeed())
	g.Expect(d.cleaned).To(HaveLen(1))
	g.Expect(func() { _, _ = h.Execute(t.Context(), Task{}) }).To(Panic(), "it must not run with a config that was not written")
}

// What is wrong with a config is said in the same form by every type.
func TestConfigOfATask(t *testing.T) {
	g := NewWithT(t)
	h := For(&dancer{})
	for config, says := range map[string]string{
		"steps: 0":   "spec.config: steps has to be at least 1",
		"step: 1":    `spec.config: unknown field "step"`,
		"name: [":    "spec.config: it is not valid YAML or JSON: ",
		"a: &x [*x]": "spec.config: line 1: aliases and anchors are not allowed",
	} {
		c, err := h.Decode(config)
		g.Expect(err).To(MatchError(HavePrefix(says)))
		g.Expect(c).To(BeZero())
	}
	g.Expect(h.Recorded(`{"name":"tango","since":"v9"}`)).To(Equal(dance{Steps: 3, Name: "tango"}))
	g.Expect(h.Recorded(`{"steps":0}`)).To(Equal(dance{}), "what was admitted goes on")
	_, err := h.Recorded("x")
	g.Expect(err).To(MatchError(HavePrefix("status.config: ")))
}
