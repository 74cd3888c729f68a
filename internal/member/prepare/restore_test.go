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
