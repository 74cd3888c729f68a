// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"

	"filippo.io/age"
)

// CheckRecipient returns an error unless a text is a public key that snapshots can be encrypted for.
func CheckRecipient(text string) error {
	if _, err := age.ParseX25519Recipient(text); err != nil {
		return fmt.Errorf("%.80q is not the public key of an X25519 identity of age (age1..., as age-keygen prints it)", text)
	}
	return nil
}
