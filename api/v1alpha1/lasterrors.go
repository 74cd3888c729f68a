// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "slices"

// Reports reports whether the status has an error with a code.
func (s *EtcdStatus) Reports(code ErrorCode) bool {
	return slices.ContainsFunc(s.LastErrors, func(e LastError) bool { return e.Code == code })
}
