// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// Code is why an agent refused a request, or failed to carry it out.
type Code string

// The codes.
const (
	// CodeBadRequest: the request is malformed.
	CodeBadRequest Code = "BadRequest"
	// CodeUnauthorized: the request is not signed by the operator.
	CodeUnauthorized Code = "Unauthorized"
	// CodeMethodNotAllowed: a request that changes something must be a POST.
	CodeMethodNotAllowed Code = "MethodNotAllowed"
	// CodeNoStore: there is no backup store.
	CodeNoStore Code = "NoStore"
	// CodeNoLeader: there is no healthy leader whose agent could take the snapshot.
	CodeNoLeader Code = "NoLeader"
	// CodeTooManyRequests: too many requests are waiting for a snapshot.
	CodeTooManyRequests Code = "TooManyRequests"
	// CodeSnapshotFailed: the snapshot, or the listing of snapshots, failed.
	CodeSnapshotFailed Code = "SnapshotFailed"
	// CodeGone: the store does not have what is to be held.
	CodeGone Code = "Gone"
)

var codes = []Code{CodeBadRequest, CodeUnauthorized, CodeMethodNotAllowed, CodeNoStore, CodeNoLeader, CodeTooManyRequests, CodeSnapshotFailed, CodeGone}

const (
	// messageLimit bounds the message of an error, in bytes.
	messageLimit = 1 << 10
	// errorLimit bounds the body of an error: JSON may take six bytes for one.
	errorLimit = 8 << 10
)

// errorBody is the body of an error response.
type errorBody struct {
	Error errorOf `json:"error"`
}

type errorOf struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, status int, code Code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// If the client has disconnected, the error has no recipient.
	_ = json.NewEncoder(w).Encode(errorBody{errorOf{code, sanitize.Text(message, messageLimit)}})
}

// StatusError is an error response.
type StatusError struct {
	// Code is the status code: 405 when there is no store or no healthy leader, 410 when the store does not have what is to be held, and 500
	// when the snapshot failed.
	Code int
	// Reason is empty if the body is not an error of an agent.
	Reason Code
	// Message is plain text, quoted only from an agent.
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the agent answered %d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// statusError reads an error response. Of a body that is not an error of an agent only the status code is kept: it may come
// from anywhere, and readers of a task's status may not be allowed to read there.
func statusError(response *http.Response) *StatusError {
	e := &StatusError{Code: response.StatusCode, Message: hint(response.StatusCode)}
	body, err := io.ReadAll(io.LimitReader(response.Body, errorLimit+1))
	if err != nil || len(body) > errorLimit {
		return e
	}
	var told errorBody
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&told); err != nil || decoder.More() || !slices.Contains(codes, told.Error.Code) {
		return e
	}
	e.Reason, e.Message = told.Error.Code, sanitize.Text(told.Error.Message, messageLimit)
	return e
}

// hint explains a bare status code, of an earlier version of the agent or of something that is not an agent.
func hint(code int) string {
	switch {
	case code == http.StatusMethodNotAllowed:
		return "it has no backup store, or there is no healthy leader"
	case code == http.StatusUnauthorized:
		return "it does not trust the operator"
	case code >= 300 && code < 400:
		return "agents do not redirect, so this is not an agent; check the Service and its endpoints"
	case code == http.StatusInternalServerError:
		return "check the log of the agent"
	default:
		return "this is not an answer of an agent; check the Service and its endpoints"
	}
}
