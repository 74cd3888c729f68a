// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	. "github.com/onsi/gomega"
)

func TestDecodeConfig(t *testing.T) {
	g := NewWithT(t)
	c, err := taskconfig.Decode[Config]("")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c).To(Equal(DefaultConfig()))
	c, err = taskconfig.Decode[Config](`{"unreadyGracePeriod": "1m", "podRemoval": "Evict"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.UnreadyGracePeriod.Duration).To(Equal(time.Minute))
	for config, says := range map[string]string{
		"nonsense: 1":                         `unknown field "nonsense"`,
		"TargetRevision: x":                   `unknown field "TargetRevision"`,
		"leaderHandover: null":                "leaderHandover",
		"progressDeadline: 0s":                "progressDeadline",
		"unreadyGracePeriod: soon":            "soon",
		"unreadyGracePeriod: 9s":              "unreadyGracePeriod",
		"nonServingGracePeriod: 0s":           "nonServingGracePeriod",
		"snapshotBefore: Sometimes":           "snapshotBefore",
		"nonServingGracePeriod: 500ms":        "nonServingGracePeriod",
		"nonServingGracePeriod: 1500ms":       "nonServingGracePeriod",
		"nonServingGracePeriod: null":         "nonServingGracePeriod",
		"podUpdatePolicy: OnDelete":           "podUpdatePolicy",
		"podRemoval: Nuke":                    "podRemoval",
		"nonParticipatingPods: Some":          "nonParticipatingPods",
		"restart: true\ntargetRevision: m-12": "exclude each other",
		"restart: true\n---\nrestart: false":  "more than one document",
		"[]":                                  "spec.config",
	} {
		_, err := taskconfig.Decode[Config](config)
		g.Expect(err).To(MatchError(ContainSubstring(says)), config)
	}
}

// The task has the last word, then the Etcd, then the operator; nothing updates pods in place unless one of them says so.
func TestPodUpdatePolicy(t *testing.T) {
	const in, re = v1alpha1.InPlaceIfPossible, v1alpha1.RecreatePods
	for _, c := range []struct {
		task, etcd, operator v1alpha1.PodUpdatePolicy
		restart, want        bool
	}{
		{"", "", "", false, false},
		{"", "", re, false, false},
		{"", "", in, false, true},
		{"", re, in, false, false},
		{"", in, re, false, true},
		{re, in, in, false, false},
		{in, re, re, false, true},
		{in, in, in, true, false},
	} {
		config := Config{PodUpdatePolicy: c.task, Restart: c.restart}
		if got := config.InPlace(c.etcd, c.operator); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
