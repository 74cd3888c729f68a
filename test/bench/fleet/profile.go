// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
)

// profileTimeout is how long the operator may take to answer and to record a profile.
const profileTimeout = time.Minute

// Profiles of an operator, as net/http/pprof has them.
const (
	heapProfile = "heap"
	cpuProfile  = "profile?seconds=8"
)

// profile has the operator record a profile, if requested, while the benchmark continues.
func (b *bench) profile(ctx context.Context, name, kind string) {
	if !b.profiles {
		return
	}
	from := b.operator.profiles + kind
	b.profiling.Go(func() {
		if err := fetch(ctx, http.DefaultClient, from, filepath.Join(b.dir, name+".pprof")); err != nil {
			b.console.Line("  no profile %s: %v", name, err)
		}
	})
}

// profileServer has the API server record a profile, too.
func (b *bench) profileServer(ctx context.Context, name, kind string) {
	if !b.profiles {
		return
	}
	b.profiling.Go(func() {
		client, url, err := b.server.connect()
		if err == nil {
			err = fetch(ctx, client, url.JoinPath("debug", "pprof").String()+"/"+kind, filepath.Join(b.dir, name+".pprof"))
		}
		if err != nil {
			b.console.Line("  no profile %s: %v", name, err)
		}
	})
}

// fetch writes the content of a URL to a file once the server answers.
func fetch(ctx context.Context, client *http.Client, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, profileTimeout)
	defer cancel()
	var data []byte
	err := poll.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, fmt.Errorf("requesting a profile: %w", err)
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil
		}
		defer func() { _ = response.Body.Close() }()
		if data, err = io.ReadAll(response.Body); err != nil {
			return false, fmt.Errorf("reading a profile: %w", err)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("writing a profile: %w", err)
	}
	return nil
}
