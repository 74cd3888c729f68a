// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package encryptiontest makes identities for tests of encrypted snapshots.
package encryptiontest

import (
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
)

// Identity returns a new identity, and its recipient.
func Identity(t testing.TB) (identity, recipient string) {
	t.Helper()
	made, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return made.String(), made.Recipient().String()
}

// Folder is a folder as a Secret with identities is mounted.
func Folder(t testing.TB, identities ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, identity := range identities {
		name := identity[len(identity)-8:]
		if err := os.WriteFile(filepath.Join(dir, name), []byte("# made for a test\n"+identity+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
