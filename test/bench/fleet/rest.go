// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// quiet is how long there must be no write to count as done. A status may be delayed by ten seconds.
	quiet = 12 * time.Second
	// quietTimeout is how long that may take.
	quietTimeout = 10 * time.Minute
)

// apiServer is the API server, as the benchmark looks at it.
type apiServer struct{ config *rest.Config }

// writes returns all write requests that the API server has carried out, by verb and resource, except for leases: leader
// election continues anyway.
func (a apiServer) writes(ctx context.Context) (map[string]float64, error) {
	httpClient, at, err := a.connect()
	if err != nil {
		return nil, err
	}
	families, err := scrape(ctx, httpClient, at.JoinPath("metrics").String())
	if err != nil {
		return nil, err
	}
	counted := map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		l := labelsOf(m)
		if slices.Contains([]string{"GET", "LIST", "WATCH", "CONNECT"}, l["verb"]) || l["resource"] == "leases" {
			continue
		}
		counted[l["verb"]+" "+l["resource"]+" "+l["subresource"]] += m.GetCounter().GetValue()
	}
	return counted, nil
}

// connect returns a client and the URL of the API server, for non-resource paths.
func (a apiServer) connect() (*http.Client, *url.URL, error) {
	client, err := rest.HTTPClientFor(a.config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	at, _, err := rest.DefaultServerURL(a.config.Host, "", schema.GroupVersion{}, true)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return client, at, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// newWrites returns the writes between two samples.
func newWrites(before, after map[string]float64) map[string]int {
	some := map[string]int{}
	for kind, n := range after {
		if more := int(n - before[kind]); more > 0 {
			some[kind] = more
		}
	}
	return some
}

func total(writes map[string]int) int {
	n := 0
	for _, more := range writes {
		n += more
	}
	return n
}

// untilQuiet waits until there have been no writes for a while.
func (a apiServer) untilQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quietTimeout, fmt.Errorf("writes have not stopped for %s", quietTimeout))
	defer cancel()
	before, err := a.writes(ctx)
	since := time.Now()
	return poll.Until(ctx, 2*time.Second, func() (bool, error) {
		if err != nil {
			return false, err
		}
		var after map[string]float64
		if after, err = a.writes(ctx); err != nil {
			return false, err
		}
		if total(newWrites(before, after)) > 0 {
			before, since = after, time.Now()
		}
		return time.Since(since) >= quiet, nil
	})
}

// rest watches an idle operator.
func (b *bench) rest(ctx context.Context) error {
	return b.console.Step("idle", func(note func(string)) (string, error) {
		if err := b.server.untilQuiet(ctx); err != nil {
			return "", err
		}
		note(fmt.Sprintf("watching for %s", b.idle))
		before, err := b.count(ctx)
		if err != nil {
			return "", err
		}
		b.profile(ctx, "idle-cpu", cpuProfile)
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(b.idle):
		}
		b.profile(ctx, "idle-heap", heapProfile)
		after, err := b.count(ctx)
		if err != nil {
			return "", err
		}
		load := after.since(before)
		b.results.IdleLoad = &load
		b.results.Idle, _ = b.operator.memory()
		if b.results.Memory, err = b.operator.account(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d writes in %s, %.2f cores, %.0f MiB", total(load.Writes), b.idle, load.Programs[operatorProgram], b.results.Idle), nil
	})
}
