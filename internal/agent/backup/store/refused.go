// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
)

// RefusedError reports that a store refused a request, because the container or the credentials are wrong. Its text is always the
// same, so that a status that shows it does not change; the cause's text has the ID of the request.
type RefusedError struct {
	// Store is its description, without secrets.
	Store string
	// Status is the HTTP status: 401, 403 or 404.
	Status int
	// Code is the store's own error code; it may be empty.
	Code  string
	cause error
}

// Error implements error.
func (e *RefusedError) Error() string {
	answer := fmt.Sprint(e.Status)
	if e.Code != "" {
		answer += " " + e.Code
	}
	todo := "check the credentials of the store, and that they may list, read, write and delete objects there"
	if e.Status == http.StatusNotFound {
		todo = "create the container, or correct its name or the endpoint of the store"
	}
	return fmt.Sprintf("%s answered %s: %s", e.Store, answer, todo)
}

// Unwrap returns the error of the library.
func (e *RefusedError) Unwrap() error { return e.cause }

// codes matches the error codes of a store that may be shown in a status.
var codes = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// refused returns a *RefusedError if a store has refused to list or write objects, and any other error as it is.
func (o *objects) refused(err error) error {
	status := statusOf(err)
	if status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound || o.isLocal() {
		return err
	}
	e := &RefusedError{Store: o.String(), Status: status, cause: err}
	if code := codeOf(err); codes.MatchString(code) {
		e.Code = code
	}
	return e
}

// codeOf returns a store's own code of an error; empty if it is unknown.
func codeOf(err error) string {
	var s3 interface{ ErrorCode() string }
	if errors.As(err, &s3) {
		return s3.ErrorCode()
	}
	if azure, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return azure.ErrorCode
	}
	return ""
}

// statusOf returns the HTTP status of an error; 0 if it is unknown.
func statusOf(err error) int {
	var s3 interface{ HTTPStatusCode() int }
	if errors.As(err, &s3) {
		return s3.HTTPStatusCode()
	}
	if azure, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return azure.StatusCode
	}
	if google, ok := errors.AsType[*googleapi.Error](err); ok {
		return google.Code
	}
	return 0
}

// RemovalError reports that an object could not be removed.
type RemovalError struct {
	// Name of the object, without its folder.
	Name  string
	cause error
}

// Error implements error.
func (e *RemovalError) Error() string {
	return fmt.Sprintf("removing %s from the store: %v", e.Name, e.cause)
}

// Unwrap returns the error of the library.
func (e *RemovalError) Unwrap() error { return e.cause }

// Refused reports whether the store refused it, as for an object that is locked: 403, or 409 from Azure.
func (e *RemovalError) Refused() bool {
	status := statusOf(e.cause)
	return status == http.StatusForbidden || status == http.StatusConflict
}

// IsUnreadable reports whether a store that answers does not let an object be read: one that is archived, or whose key is disabled. Requests that it
// asks to repeat later, or with other credentials, say nothing about the object.
func IsUnreadable(err error) bool {
	switch status := statusOf(err); status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return status >= 400 && status < 500
	}
}

// IsGone reports whether an object was not in the store any more.
func IsGone(err error) bool { return isMissing(err) }

// isMissing reports whether an object is not in the store. For gocloud, what Google forbids is missing, too.
func isMissing(err error) bool {
	return gcerrors.Code(err) == gcerrors.NotFound && statusOf(err) != http.StatusForbidden
}

// UnusableError reports that a store cannot be used as it is set up: by its folder, its credentials or its keys. No other machine was asked. Its
// text has no secrets, and is the same each time.
type UnusableError struct{ cause error }

// Error implements error.
func (e *UnusableError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *UnusableError) Unwrap() error { return e.cause }

// unusable returns an error as an *UnusableError; nil for none.
func unusable(err error) error {
	if err == nil {
		return nil
	}
	return &UnusableError{err}
}

// Trouble returns what a person has to know of an error of a store; empty if the store does not answer. It is the same while the cause is: the
// texts of libraries have the IDs of requests.
func Trouble(err error) string {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Error()
	}
	if setup, ok := errors.AsType[*UnusableError](err); ok {
		return setup.Error()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the certificate of the backup store is not trusted: check its endpoint, and its CA in the credentials"
	}
	status, code := statusOf(err), codeOf(err)
	switch {
	case status == 0:
		return ""
	case codes.MatchString(code):
		code = " " + code
	default:
		code = ""
	}
	return fmt.Sprintf("the backup store answered %d%s: this is tried again. If it persists, check the store", status, code)
}
