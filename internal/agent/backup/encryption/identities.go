// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
)

// maxFile bounds a file with identities, in bytes.
const maxFile = 64 << 10

// Identities decrypt what is encrypted for their recipients.
type Identities []*age.X25519Identity

// ReadIdentities reads the files of a mounted Secret, each as age-keygen writes it. Without a Secret there is an empty folder, or none,
// and so no identity, which is no error. Errors name a file, never its content.
func ReadIdentities(folder string) (Identities, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the identities: %w", err)
	}
	var all Identities
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // the kubelet's links for atomic updates
		}
		found, err := readFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading %s of the Secret with the identities: %w", entry.Name(), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// String returns their recipients, which are public.
func (i Identities) String() string {
	recipients := make([]string, 0, len(i))
	for _, identity := range i {
		recipients = append(recipients, identity.Recipient().String())
	}
	return strings.Join(recipients, " ")
}

func readFile(path string) (all Identities, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, errors.New("it is too large for identities")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	// It was only read.
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		identity, err := age.ParseX25519Identity(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is not an X25519 identity of age (AGE-SECRET-KEY-1...): make one with age-keygen", n)
		}
		all = append(all, identity)
	}
	if lines.Err() != nil {
		return nil, errors.New("it is not a text")
	}
	return all, nil
}
