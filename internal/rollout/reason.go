// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// separator separates why a pod was removed from how that ended, in the reason of its last operation.
const separator = "; "

// WithEnd appends to the reason of an operation how the operation ended.
func withEnd(reason, end string) string { return reason + separator + end }

// Of returns why a pod was removed, and how that ended; end is empty while the operation is in progress.
func SplitReason(op v1alpha1.LastOperation) (why, end string) {
	i := strings.LastIndex(op.Reason, separator)
	if i < 0 || op.State == v1alpha1.OperationStateInProgress {
		return op.Reason, ""
	}
	return op.Reason[:i], op.Reason[i+len(separator):]
}
