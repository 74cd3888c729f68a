// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	. "github.com/onsi/gomega"
)

// dying are backups whose restore is as far as a process comes.
type dying struct{ seen func() }

func (dying) Exist(context.Context) (bool, error) { return true, nil }

func (d dying) Restore(context.Context, member.Shared, member.Identity) error {
	d.seen()
	return errors.New("killed")
}

// Whenever prepare is killed after the data directory has its name, the agent knows that the member was restored: the next prepare starts with
// the data that it finds.
func TestRestoreIsNotedBeforeThereIsData(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	p := &preparation{Options: Options{RestoredFile: filepath.Join(dir, "restored")}}
	noted := false
	p.Backups = dying{func() {
		_, err := os.Stat(p.RestoredFile)
		noted = err == nil
	}}
	waits, err := p.restore(t.Context(), member.Facts{DataDir: filepath.Join(dir, "data")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(waits.Message).To(ContainSubstring("killed"))
	g.Expect(noted).To(BeTrue())
}

// A member that starts with the data of its own rebuild takes a full snapshot when it leads, as one that was restored does: the deltas in the store
// continue another history.
func TestRebuildIsNoted(t *testing.T) {
	for name, tc := range map[string]struct {
		recovery *member.Recovery
		noted    bool
	}{
		"a usual start":   {nil, false},
		"after a rebuild": {&member.Recovery{Task: "task", Member: "main-0", Source: member.RecoverFromData}, true},
		"after a restore": {&member.Recovery{Task: "task", Member: "main-0", Source: member.RecoverFromBackup}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, dir := NewWithT(t), t.TempDir()
			p := &preparation{
				Options: Options{RestoredFile: filepath.Join(dir, "restored"), ConfigFile: filepath.Join(dir, "etcd.yaml")},
				shared:  member.Shared{Config: map[string]any{}, Recovery: tc.recovery},
			}
			g.Expect(p.configure(member.Facts{}, member.Start, knowledge{})).To(Succeed())
			_, err := os.Stat(p.RestoredFile)
			g.Expect(err == nil).To(Equal(tc.noted))
			g.Expect(p.ConfigFile).To(BeARegularFile())
		})
	}
}
