// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copier

import (
	"errors"
	"os"
	"testing"
	"testing/iotest"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	. "github.com/onsi/gomega"
)

// What cannot be read to its end was not copied, encrypted or not; what the target has lost or altered was not written.
func TestACopyThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("broken")
	for _, encrypted := range []bool{false, true} {
		s := snapshot(backup.Full, 0, 20, now)
		s.Encrypted = encrypted
		g.Expect(verify(s, iotest.ErrReader(broken))).To(MatchError(broken))
	}
	c := Config{Target: opened(t, t.TempDir(), signaturetest.Keys(t))}
	g.Expect(c.readBack(t.Context(), snapshot(backup.Full, 0, 20, now), nil)).To(MatchError(os.ErrNotExist))
	written := write(t, c.Target, snapshot(backup.Full, 0, 20, now))
	file, _ := c.Target.File(written)
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	content[0] ^= 1
	g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	_, corrupt := errors.AsType[*backup.CorruptError](c.readBack(t.Context(), written, nil))
	g.Expect(corrupt).To(BeTrue())
	g.Expect(c.readBack(t.Context(), written, nil)).To(MatchError(ContainSubstring("is not what was signed")))
}
