// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package stage controls an etcd cluster on the local Kubernetes for the demo and the benchmarks: it breaks members, changes
// templates, moves leadership, switches the operator's feature gate, and waits. It needs root on the machine that the pods
// run on.
//
// It imports the API, etcdclient, test/local/node, and clients of Kubernetes.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollInterval is the poll interval of this package.
const pollInterval = 100 * time.Millisecond

// lockName is a name in the kernel's table of abstract sockets: unique on the machine, without a file, and released when
// its holder dies.
const lockName = "@etcd-foreman-stage"

// Stage gives access to the local Kubernetes.
type Stage struct {
	// Local is the folder of generated files in the checkout, .local.
	Local  string
	Config *rest.Config
	Client client.Client

	lock net.Listener
}

// Open connects to the local Kubernetes of the current checkout, never to the user's own kubeconfig. Until Close there can be
// no other Stage on this machine: two at a time would distort each other's figures.
func Open() (*Stage, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("freezing processes of pods needs root")
	}
	lock, err := net.Listen("unix", lockName)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.New("the demo or a benchmark is running on this machine already")
	}
	if err != nil {
		return nil, fmt.Errorf("locking the local Kubernetes: %w", err)
	}
	s := &Stage{lock: lock}
	if err := s.connect(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the local Kubernetes.
func (s *Stage) Close() { s.lock.Close() } //nolint:errcheck // the kernel frees it at the latest

func (s *Stage) connect() error {
	var err error
	if s.Local, err = findLocal(); err != nil {
		return err
	}
	s.Config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(s.Local, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("connecting to the local Kubernetes: %w: is it up? (go run ./test/local up)", err)
	}
	s.Config.QPS, s.Config.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	if s.Client, err = client.New(s.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connecting to the local Kubernetes: %w: is it up? (go run ./test/local up)", err)
	}
	return nil
}

// AuditLog returns the path of the API server's log of the operator's requests.
func (s *Stage) AuditLog() string { return filepath.Join(s.Local, "run", "audit.log") }

// findLocal returns the folder .local beside the nearest go.mod in a parent folder.
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

// Note receives the progress of something, or what it waits for.
type Note func(string)

// until polls until nothing is missing. missing returns what is; its errors count as missing too, because the API server or
// a member may be unavailable for a moment.
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
