// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
)

// Names of the Secrets.
const (
	secretCA   = "giant-ca"
	secretPair = "giant-pair"
)

// giantKey returns Secrets with a CA whose public key has so many bytes, and a pair that says it is signed by it. To find out that it
// is not takes a computation that grows with the square of the size.
func giantKey(size int) (map[string]map[string][]byte, error) {
	ca, leaf, err := certs.Giant(8*size, "*")
	if err != nil {
		return nil, fmt.Errorf("making a giant key: %w", err)
	}
	return map[string]map[string][]byte{
		secretCA:   {"ca.crt": ca},
		secretPair: {"tls.crt": leaf.Certificate, "tls.key": leaf.Key},
	}, nil
}
