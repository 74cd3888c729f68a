// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

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

func ping(by *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, _, err := get(ctx, by, url, "")
		return err
	}
}

// get returns an answer and its status code.
func get(ctx context.Context, by *http.Client, from, token string) ([]byte, int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("asking %s: %w", from, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := by.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		// It is not the API server that did not answer.
		return nil, 0, fmt.Errorf("asking %s: %w", request.URL.Host, failed.Err)
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxScrape))
	return body, response.StatusCode, err
}

func scrape(ctx context.Context, by *http.Client, url, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	body, code, err := get(ctx, by, url, token)
	if err == nil && code != http.StatusOK {
		err = kube.Failure("it answered %d %s", code, http.StatusText(code))
	}
	return body, err
}
