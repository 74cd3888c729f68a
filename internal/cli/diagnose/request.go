// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// isUnavailable reports whether a member gave no answer, or said that it could not in time.
func isUnavailable(err error) bool {
	var of rpctypes.EtcdError
	if errors.As(err, &of) {
		return of.Code() == codes.Unavailable || of.Code() == codes.DeadlineExceeded
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// isUntrusted reports whether one of both sides refused the other's certificate: then the member is not slow. gRPC keeps of the error but
// its text.
func isUntrusted(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "tls: ") || strings.Contains(err.Error(), "x509: "))
}

func ping(by *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, by, url, "")
		return err
	}
}

// answer is what a request got.
type answer struct {
	body []byte
	code int
	// date is the time by the clock of the server, in whole seconds; zero if the answer does not have it.
	date time.Time
}

func get(ctx context.Context, by *http.Client, from, token string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return a, fmt.Errorf("asking %s: %w", from, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := by.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		// It is not the API server that did not answer.
		return a, fmt.Errorf("asking %s: %w", request.URL.Host, failed.Err)
	}
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	a.code = response.StatusCode
	// Without a valid date, it is zero.
	a.date, _ = http.ParseTime(response.Header.Get("Date"))
	a.body, err = kube.ReadUpTo(response.Body, maxScrape)
	return a, err
}

// scrape returns metrics, and the time by the clock of the process that has them, in whole seconds; zero if it does not say so.
func scrape(ctx context.Context, by *http.Client, url, token string) (body []byte, date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	got, err := get(ctx, by, url, token)
	if err != nil {
		return nil, date, err
	}
	if got.code != http.StatusOK {
		return nil, date, kube.Failure("it answered %d %s", got.code, http.StatusText(got.code))
	}
	return got.body, got.date, nil
}
