// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/member/serve"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// leaseLifetime is how long readers believe a member lease after a renewal.
const leaseLifetime = time.Minute

type serveOptions struct {
	name, namespace, sharedDir, address string
	heartbeat                           time.Duration
}

func serveCommand(log logr.Logger) *cobra.Command {
	options := serveOptions{name: os.Getenv(member.NameVariable), namespace: os.Getenv(member.NamespaceVariable)}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Look after the member: its lease, its promotion, its backups",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := newServer(log, options)
			if err != nil {
				return err
			}
			return server.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&options.name, "name", options.name, "name of the member and of its lease, by default $"+member.NameVariable)
	cmd.Flags().StringVar(&options.namespace, "namespace", options.namespace, "namespace of its lease, by default $"+member.NamespaceVariable)
	cmd.Flags().StringVar(&options.sharedDir, "shared-dir", member.SharedDir, "folder with the configuration that the members share")
	cmd.Flags().StringVar(&options.address, "listen", ":8080", "address of the HTTP API, the metrics and the health check")
	cmd.Flags().DurationVar(&options.heartbeat, "heartbeat", 10*time.Second, "how often the member lease is renewed")
	return cmd
}

func newServer(log logr.Logger, o serveOptions) (*serve.Server, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("looking for the API server: %w", err)
	}
	shared := serve.SharedIn(o.sharedDir)
	etcd, _, err := serve.NewMember(o.name, shared)
	if err != nil {
		return nil, err
	}
	lease, err := serve.NewLease(config, o.namespace, o.name, leaseLifetime)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		// Whoever asked may be gone.
		_ = json.NewEncoder(w).Encode(map[string]bool{"health": true})
	})
	return &serve.Server{
		Log: log, Member: etcd, Lease: lease, Heartbeat: o.heartbeat,
		Tidy:    func() { serve.RemoveReplaced(log, shared) },
		Address: o.address, Handler: mux, Metrics: serve.NewMetrics(registry), Clock: clock.RealClock{},
	}, nil
}
