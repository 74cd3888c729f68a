// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
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

// What is said of an error is true of its class, and stays the same while the cause does.
func TestTrouble(t *testing.T) {
	answers := func(status int, code string) func(t *testing.T) Config {
		return func(t *testing.T) Config {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><RequestId>%s</RequestId></Error>", code, t.Name())
			}))
			t.Cleanup(server.Close)
			return bucketAt(t, server.URL)
		}
	}
	for name, c := range map[string]struct {
		config func(t *testing.T) Config
		want   string
	}{
		"it refuses":    {answers(http.StatusForbidden, "AccessDenied"), "answered 403 AccessDenied: check the credentials"},
		"it has failed": {answers(http.StatusNotImplemented, "NotImplemented"), "the backup store answered 501 NotImplemented: this is tried again. If it persists, check the store"},
		"it does not answer": {func(t *testing.T) Config {
			server := httptest.NewServer(nil)
			server.Close()
			return bucketAt(t, server.URL)
		}, ""},
		"its certificate is of another CA": {func(t *testing.T) Config {
			server := httptest.NewTLSServer(nil)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			t.Cleanup(server.Close)
			return bucketAt(t, server.URL)
		}, "the certificate of the backup store is not trusted: check its endpoint, and its CA in the credentials"},
		"its folder is missing": {func(t *testing.T) Config {
			return Config{Provider: Local, Container: filepath.Join(t.TempDir(), "missing"), Prefix: "a"}
		}, "opening the store: its folder cannot be found, so its volume may not be mounted: stat "},
		"a file is in the way": {func(t *testing.T) Config {
			config := Config{Provider: Local, Container: t.TempDir(), Prefix: "a"}
			if err := os.WriteFile(filepath.Join(config.Container, "a"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return config
		}, "listing the store: "},
		"its credentials are missing": {func(t *testing.T) Config {
			return Config{Provider: S3, Container: "bucket", Credentials: filepath.Join(t.TempDir(), "missing")}
		}, "reading the credentials of the store: "},
		"its credentials lack a key": {func(t *testing.T) Config {
			return Config{Provider: S3, Container: "bucket", Credentials: secret(t, map[string]string{"region": "c"})}
		}, "opening the store: the credentials lack "},
		"its provider is unknown": {func(*testing.T) Config { return Config{Provider: "unknown", Container: "bucket"} }, "opening the store: "},
		"its prefix is invalid":   {func(*testing.T) Config { return Config{Provider: Local, Container: "/", Prefix: "../a"} }, "opening the store: "},
		"its keys are missing": {func(t *testing.T) Config {
			return Config{Provider: Local, Container: t.TempDir(), Prefix: "a", SigningKeys: filepath.Join(t.TempDir(), "missing")}
		}, "missing"},
		"a recipient is invalid": {func(t *testing.T) Config {
			return Config{Provider: Local, Container: t.TempDir(), Prefix: "a", Recipients: []string{"me"}}
		}, "reading for whom snapshots are encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
			defer cancel()
			s, err := Open(ctx, c.config(t))
			if err == nil {
				_, err = s.Begun(ctx, "uid-task", "")
			}
			g.Expect(err).To(HaveOccurred())
			if says := Trouble(fmt.Errorf("looking: %w", err)); c.want == "" {
				g.Expect(says).To(BeEmpty())
			} else {
				g.Expect(says).To(ContainSubstring(c.want))
				g.Expect(says).NotTo(ContainSubstring(t.Name()), "the ID of a request")
			}
		})
	}
}

func bucketAt(t *testing.T, url string) Config {
	return Config{Provider: S3, Container: "bucket", Prefix: "a/b", Credentials: secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": url, "s3ForcePathStyle": "true"})}
}
