// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package coded has errors with a code for status.lastErrors of a task or an Etcd. Refused recognizes errors of the API server that do not
// pass by themselves.
package coded

import (
	"errors"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

type withCode struct {
	code v1alpha1.ErrorCode
	error
}

// Unwrap returns the error without its code.
func (e *withCode) Unwrap() error { return e.error }

// Error returns an error with a code; nil if err is nil. Its text is that of err.
func Error(code v1alpha1.ErrorCode, err error) error {
	if err == nil {
		return nil
	}
	return &withCode{code, err}
}

// Of returns the code of an error, or the given one if it has none.
func Of(err error, otherwise v1alpha1.ErrorCode) v1alpha1.ErrorCode {
	if e, ok := errors.AsType[*withCode](err); ok {
		return e.code
	}
	return otherwise
}
