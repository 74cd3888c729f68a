// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"crypto/x509"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// maxSubject bounds the name of a CA in a remark, in bytes.
const maxSubject = 256

// common remarks on a CA that clients and peers have in common, whatever certificate it has: a member takes whoever it has signed for a
// member.
func common(clients, peers []*x509.Certificate) []string {
	for _, peer := range peers {
		for _, client := range clients {
			if bytes.Equal(peer.RawSubjectPublicKeyInfo, client.RawSubjectPublicKeyInfo) {
				return []string{fmt.Sprintf("Clients and peers trust the same CA (%s), so every client can act as a member: give peers a CA of their own.",
					sanitize.Text(peer.Subject.String(), maxSubject))}
			}
		}
	}
	return nil
}
