// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestInspectData(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string // those that end in a slash are folders
		want  Data
	}{
		{"no directory", nil, DataNone},
		{"only folders", []string{"member/wal/", "member/snap/"}, DataNone},
		{"interrupted before the first entry", []string{"member/wal.tmp/0.wal", "member/snap/db"}, DataNone},
		{"log and snapshots", []string{"member/wal/0000000000000000-0000000000000000.wal", "member/snap/db"}, DataPresent},
		{"log alone", []string{"member/wal/0000000000000000-0000000000000000.wal"}, DataDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			dir := filepath.Join(t.TempDir(), "new.etcd")
			for _, file := range tc.files {
				path := filepath.Join(dir, file)
				g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
				if file[len(file)-1] == '/' {
					g.Expect(os.MkdirAll(path, 0o700)).To(Succeed())
				} else {
					g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
				}
			}
			g.Expect(InspectData(dir)).To(Equal(tc.want))
		})
	}
}

func TestInspectDataDoesNotTakeTheUnreadableForEmpty(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(dir, "member"), nil, 0o600)).To(Succeed())
	_, err := InspectData(dir)
	g.Expect(err).To(MatchError(ContainSubstring("reading the write-ahead log")))
}
