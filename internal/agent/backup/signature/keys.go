// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// SigningKey is the key of the Secret with the private key that signs, in PEM (PKCS #8). Its public key is trusted.
	SigningKey = "signing.key"
	// publicSuffix ends the keys of the Secret with public keys that are trusted besides, in PEM (PKIX).
	publicSuffix = ".pub"
	// maxKeyFile bounds a file with a key, in bytes.
	maxKeyFile = 16 << 10
)

// Keys sign and verify.
type Keys struct {
	signer   ed25519.PrivateKey // nil: for verification only
	signerID string
	// trusted keys by ID.
	trusted map[string]ed25519.PublicKey
}

// ReadKeys reads the keys of a mounted Secret. Errors name a file, never its content.
func ReadKeys(folder string) (*Keys, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys: %w", err)
	}
	k := &Keys{trusted: map[string]ed25519.PublicKey{}}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") || name != SigningKey && !strings.HasSuffix(name, publicSuffix) {
			continue // also the kubelet's links for atomic updates
		}
		if err := k.add(name, filepath.Join(folder, name)); err != nil {
			return nil, fmt.Errorf("reading %s of the signing keys: %w", name, err)
		}
	}
	if len(k.trusted) == 0 {
		return nil, fmt.Errorf("the Secret of the signing keys has neither %s nor a public key (*%s)", SigningKey, publicSuffix)
	}
	return k, nil
}

func (k *Keys) add(name, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxKeyFile {
		return errors.New("it is too large for a key")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	block, rest := pem.Decode(data)
	if block == nil || len(strings.TrimSpace(string(rest))) > 0 {
		return errors.New("it is not one key in PEM")
	}
	if name != SigningKey {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return errors.New("it is not a public Ed25519 key")
		}
		k.trusted[idOf(key)] = key
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return errors.New("it is not a private Ed25519 key: create one with: openssl genpkey -algorithm ed25519")
	}
	public := key.Public().(ed25519.PublicKey)
	k.signer, k.signerID = key, idOf(public)
	k.trusted[k.signerID] = public
	return nil
}

// idSize is the size of a key's ID, in bytes.
const idSize = 8

// idOf returns the ID of a key. It is only a hint: it need not be hard to forge.
func idOf(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:idSize])
}
