// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The exit codes.
const (
	ExitSucceeded = 0
	// ExitFailed: the task failed or was rejected, or the cluster could not be reached.
	ExitFailed = 1
	// exitUsage: the command line is wrong.
	exitUsage = 2
	// ExitTimedOut: --timeout has passed. The task continues.
	ExitTimedOut = 3
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without its exit code.
func (e *Error) Unwrap() error { return e.Err }

// Usage returns an error in the command line.
func Usage(format string, args ...any) error {
	return &Error{exitUsage, fmt.Errorf(format, args...)}
}

// Failure returns an error with the exit code ExitFailed.
func Failure(format string, args ...any) error {
	return &Error{ExitFailed, fmt.Errorf(format, args...)}
}

// Code returns the exit code of an error.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return ExitSucceeded
	case errors.As(err, &e):
		return e.Code
	}
	return ExitFailed
}

// IsOver reports whether a context has ended. If the deadline has passed, it waits for the end: the rate limiter of requests may fail
// shortly before the context ends.
func IsOver(ctx context.Context) bool {
	if deadline, bounded := ctx.Deadline(); bounded && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// IsObjectNotFound reports whether the API server has the kind, and no object of that name.
func IsObjectNotFound(err error) bool { return apierrors.IsNotFound(err) && !isKindMissing(err) }

// isKindMissing reports whether the API server does not have the kind: it answers 404 without naming an object.
func isKindMissing(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Sentence returns an error as one sentence.
func Sentence(err error) string {
	var status apierrors.APIStatus
	var failed *url.Error
	switch {
	case isKindMissing(err):
		return "the cluster does not know Etcds and EtcdOperatorTasks: install the CRDs of etcd-foreman, or choose another cluster with --context"
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept your credentials: log in again, or choose another context with --context"
	case apierrors.IsForbidden(err) && errors.As(err, &status):
		return "not permitted: " + text.OneLine(status.Status().Message)
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &failed) && isTLS(failed.Err):
		return fmt.Sprintf("the TLS connection to the API server at %s failed: %s; check the address and the certificates in your kubeconfig", server(failed.URL), text.OneLine(cause(failed.Err)))
	case errors.As(err, &failed):
		return fmt.Sprintf("the API server at %s does not answer: %s", server(failed.URL), text.OneLine(cause(failed.Err)))
	case errors.As(err, &status):
		return text.OneLine(status.Status().Message)
	}
	return text.OneLine(err.Error())
}

// isTLS reports whether a server answered but one side did not accept the certificate or protocol of the other.
func isTLS(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &untrusted) || errors.As(err, &record) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch)
}

// cause returns the innermost error of a failed connection.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// server returns the address in the URL of a request.
func server(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Scheme + "://" + u.Host
}

func quoted[V any](set map[string]V) string {
	names := slices.Sorted(maps.Keys(set))
	for i, name := range names {
		names[i] = fmt.Sprintf("%q", name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
