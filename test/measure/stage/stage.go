// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package stage does to an etcd cluster on the local Kubernetes what the demo and the benchmarks need: it
// breaks members, changes templates, moves leadership, switches the operator's feature gate, and waits. It
// needs root on the machine that the pods run on.
//
// It imports the API, etcdclient, test/local/node, and clients of Kubernetes.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollInterval is the period of all waiting in this package.
const pollInterval = 100 * time.Millisecond

// Stage is the local Kubernetes.
type Stage struct {
	// Local is the folder for what is made in the checkout, .local.
	Local  string
	Config *rest.Config
	Client client.Client
}

// Open connects to the local Kubernetes of the checkout that the current folder is in. A kubeconfig of the
// person's own is never used.
func Open() (*Stage, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this freezes processes of pods, and so has to be run as root")
	}
	local, err := findLocal()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(local, "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("connecting to the local Kubernetes: %w: is it up? (go run ./test/local up)", err)
	}
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the local Kubernetes: %w: is it up? (go run ./test/local up)", err)
	}
	return &Stage{Local: local, Config: config, Client: c}, nil
}

// AuditLog is the API server's log of the operator's requests.
func (s *Stage) AuditLog() string { return filepath.Join(s.Local, "run", "audit.log") }

// findLocal finds the folder .local beside the next go.mod above.
func findLocal() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".local"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding the checkout: there is no go.mod here or above")
		}
	}
}

// Note is told how far something is, or what it waits for.
type Note func(string)

// until polls until nothing is missing any more. missing says what is; an error of it counts as missing too,
// because the API server or a member may be away for a moment.
func until(ctx context.Context, timeout time.Duration, what string, note Note, missing func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not within %s", timeout))
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		lack, err := missing(ctx)
		if err != nil {
			lack = err.Error()
		}
		if lack == "" {
			return nil
		}
		note("waiting: " + lack)
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", what, context.Cause(ctx), lack)
		case <-ticker.C:
		}
	}
}
