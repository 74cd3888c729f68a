// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "slices"

// Reports reports whether the status has an error with a code.
func (s *EtcdStatus) Reports(code ErrorCode) bool {
	return slices.ContainsFunc(s.LastErrors, func(e LastError) bool { return e.Code == code })
}

// CodedError is an error with a code for lastErrors of a status.
// +kubebuilder:object:generate=false
type CodedError struct {
	Code ErrorCode
	Err  error
}

// Error is the error without its code.
func (e *CodedError) Error() string { return e.Err.Error() }

// Unwrap makes errors.Is and errors.As see through.
func (e *CodedError) Unwrap() error { return e.Err }
