// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// The error of a store that refuses a request names the store, its answer and what to do, always in the same words.
func TestAStoreThatRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
		want   string
	}{
		"no right":         {http.StatusForbidden, "AccessDenied", "S3 container bucket, prefix a/b answered 403 AccessDenied: check the credentials of the store, and that they may list, read, write and delete objects there"},
		"an unknown key":   {http.StatusForbidden, "InvalidAccessKeyId", "answered 403 InvalidAccessKeyId: check the credentials"},
		"no credentials":   {http.StatusUnauthorized, "Unauthorized", "answered 401 Unauthorized: check the credentials"},
		"no such bucket":   {http.StatusNotFound, "NoSuchBucket", "answered 404 NoSuchBucket: create the container, or correct its name or the endpoint"},
		"a code that lies": {http.StatusNotFound, strings.Repeat("Ready! ", 100), "answered 404: create the container"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				request++
				w.WriteHeader(c.status)
				_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message><RequestId>%d</RequestId></Error>", c.code, request)
			}))
			defer server.Close()
			credentials := secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"})
			s, err := Open(t.Context(), Config{Provider: S3, Container: "bucket", Prefix: "a/b", Credentials: credentials})
			g.Expect(err).NotTo(HaveOccurred())
			_, first := s.List(t.Context())
			_, again := s.List(t.Context())
			g.Expect(first).To(MatchError(ContainSubstring(c.want)))
			g.Expect(again).To(MatchError(first.Error()), "the number of the request is not part of it")
			_, err = s.Write(t.Context(), backup.Snapshot{Kind: backup.Full, LastRevision: 1}, func(w io.Writer) error {
				_, err := w.Write([]byte("data"))
				return err
			})
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
			refused, ok := errors.AsType[*RefusedError](err)
			g.Expect(ok).To(BeTrue())
			g.Expect(refused.Status).To(Equal(c.status))
		})
	}
}
