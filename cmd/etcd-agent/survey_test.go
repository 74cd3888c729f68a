// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// The Job of an undo names the undone task in its environment, and the survey describes what was kept for that. Where nothing is undone, it reads none
// of it. An operator that is too old to say so gets the newest described.
func TestSurveyForAnUndo(t *testing.T) {
	for task, described := range map[string]map[string]int64{
		"": {"new.etcd.before-newer-2": 2}, "older": {"new.etcd.before-older-1": 2}, member.KeptForNone: nil,
	} {
		g := NewWithT(t)
		dir, result := filepath.Join(t.TempDir(), "new.etcd"), filepath.Join(t.TempDir(), "result")
		for _, kept := range []string{".before-older-1", ".before-newer-2"} {
			datadirtest.Write(t, dir+kept, 3, datadirtest.Put("key", "value", 0))
		}
		t.Setenv(member.KeptForVariable, task)
		cmd := rootCommand(logr.Discard())
		cmd.SetArgs([]string{"survey", "--data-dir=" + dir, "--result-file=" + result})
		g.Expect(cmd.Execute()).To(Succeed())
		text, err := os.ReadFile(result)
		g.Expect(err).NotTo(HaveOccurred())
		got := member.Survey{}
		g.Expect(json.Unmarshal(text, &got)).To(Succeed())
		g.Expect(got.Kept).To(HaveLen(2), "they are named")
		g.Expect(got.KeptRevisions).To(Equal(described))
		g.Expect(got.Needs).To(HaveLen(len(described)))
	}
}
