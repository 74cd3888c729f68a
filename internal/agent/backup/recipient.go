// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"

	"filippo.io/age"
)

// ParseRecipient parses a public key that snapshots can be encrypted for.
func ParseRecipient(text string) (age.Recipient, error) {
	recipient, err := age.ParseX25519Recipient(text)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not the public key of an X25519 identity of age (age1..., as age-keygen prints it)", text)
	}
	return recipient, nil
}
