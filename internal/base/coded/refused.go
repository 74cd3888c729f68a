// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package coded

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// Refused reports whether the API server refuses a request, and will refuse it again: for lack of a right, or by an admission policy or webhook,
// which answers with one of three codes.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}
