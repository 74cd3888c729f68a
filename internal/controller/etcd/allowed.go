// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// refuse reports whether the operator's configuration refuses the Etcd, and notes why for the status.
func (r *Reconciler) refuse(p *pass) bool {
	if r.Allowed == nil {
		return false
	}
	if err := r.Allowed(p.etcd); err != nil {
		p.specErr = &tasks.CodedError{Code: v1alpha1.ErrNotAllowed, Err: err}
	}
	return p.specErr != nil
}
