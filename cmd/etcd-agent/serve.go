// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/server"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version/buildinfo"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// leaseLifetime is how long a member lease is valid after a renewal.
const leaseLifetime = time.Minute

type serveOptions struct {
	name, sharedDir, address string
	tls                      server.TLS
	trustFile                string
	heartbeat                time.Duration
	leases                   leaseNames
	store                    store.Config
	snapshots                snapshotter.Options
}

func serveCommand(log logr.Logger) *cobra.Command {
	options := serveOptions{name: os.Getenv(member.NameVariable), trustFile: os.Getenv(member.TrustFileVariable)}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run beside the member: renew its lease, take its snapshots",
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
	cmd.Flags().StringVar(&options.sharedDir, "shared-dir", member.SharedDir, "folder with the configuration that the members share")
	cmd.Flags().StringVar(&options.address, "listen", ":8080", "address of the HTTP API, the metrics and the health check")
	options.tls.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&options.trustFile, "api-trust-file", options.trustFile, "file with the public key of the operator, by default $"+member.TrustFileVariable+"; empty: requests are not authenticated")
	cmd.Flags().DurationVar(&options.heartbeat, "heartbeat", 10*time.Second, "how often the member lease is renewed")
	options.leases.addFlags(cmd.Flags())
	options.store.AddFlags(cmd.Flags(), "")
	options.snapshots.AddFlags(cmd.Flags())
	return cmd
}

func newServer(log logr.Logger, o serveOptions) (*serve.Server, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the in-cluster configuration: %w", err)
	}
	shared := serve.SharedIn(o.sharedDir, member.ConfigFile)
	etcd, local, err := serve.NewMember(o.name, shared)
	if err != nil {
		return nil, err
	}
	started, err := shared()
	if err != nil {
		return nil, err
	}
	lease, err := serve.NewMemberLease(config, o.leases.namespace, o.name, leaseLifetime, started)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildinfo.New())
	mux := http.NewServeMux()
	s := &serve.Server{
		Log: log, Member: etcd, Lease: lease, Heartbeat: o.heartbeat, Name: o.name, Shared: shared,
		Tidy:    func() bool { return serve.RemoveReplaced(log, shared) },
		Writer:  func() (clusterID, memberID uint64, err error) { return datadir.Writer(started.DataDir()) },
		Address: o.address, TLS: o.tls.Server(trustIn(o.trustFile)), Handler: mux, Metrics: serve.NewMetrics(registry), Clock: clock.RealClock{},
	}
	_, port, err := net.SplitHostPort(o.address)
	if err != nil {
		return nil, fmt.Errorf("reading the address to listen on: %w", err)
	}
	api := server.Config{
		Log: log, Transport: o.tls, Trust: trustIn(o.trustFile), Clock: clock.RealClock{},
		Leader: func(ctx context.Context) (server.Leader, error) {
			self, url, err := serve.Leader(ctx, etcd, local, shared, o.tls.Scheme(), port)
			return server.Leader{Self: self, URL: url}, err
		},
		Health: func() error { return nil },
	}
	if o.store.Provider != "" {
		b, err := newSnapshots(log, o, config, local, registry)
		if err != nil {
			return nil, err
		}
		api.Snapshots, api.Health, s.Lead = b, b.Healthy, b.lead
		s.Saw = b.seen.Note
	}
	mux.Handle("/metrics", server.Metrics(api, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	mux.Handle("/", server.Handler(api))
	return s, nil
}

// trustIn returns a function that reads the trust of the API for each request: the operator may change it at any time. Without
// a file, requests are not authenticated.
func trustIn(file string) func() (auth.Trust, error) {
	if file == "" {
		return nil
	}
	return func() (auth.Trust, error) {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return auth.Trust{}, errors.New("the operator has not published its key to the agents yet; retry in a minute")
		}
		if err != nil {
			return auth.Trust{}, errors.New("the trust file of the agent API cannot be read")
		}
		return auth.ParseTrust(data)
	}
}
