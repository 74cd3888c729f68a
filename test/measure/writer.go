// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// writeInterval is the time between two writes through one member.
	writeInterval = 50 * time.Millisecond
	// writeDeadline is the time after which a write has failed.
	writeDeadline = time.Second
	// askInterval is the interval at which each member is asked for its leader.
	askInterval = 100 * time.Millisecond
	// startDeadline is how long Start waits for the first acknowledgement.
	startDeadline = 10 * time.Second
	// maxDuration and maxWrites bound a Writer that is not stopped.
	maxDuration = time.Hour
	maxWrites   = 250_000
)

// Options say which cluster is measured.
type Options struct {
	// Config of the API server.
	Config *rest.Config
	// Namespace and StatefulSet of the members.
	Namespace, StatefulSet string
	// ClientPort of the members. Default 2379.
	ClientPort int32
	// TLS is the configuration for a member's client port, by its pod: in a cluster that switches to TLS,
	// members differ. It returns nil for plain HTTP, and is nil when all members are without TLS.
	TLS func(*corev1.Pod) *tls.Config
}

// Writer writes to every member of a cluster and records its state. See the package's documentation.
type Writer struct {
	options Options
	kube    kubernetes.Interface
	started time.Time

	writes  *ledger
	leaders sightings
	pods    life
	members loops

	cancel  context.CancelFunc
	stopped sync.Once
	report  Report
}

// Start starts measuring and returns once the first write was acknowledged. The Writer runs until Stop, until the context
// ends, or for at most an hour.
func Start(ctx context.Context, options Options) (*Writer, error) {
	if options.ClientPort == 0 {
		options.ClientPort = 2379
	}
	kube, err := kubernetes.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	now := time.Now()
	w := &Writer{options: options, kube: kube, started: now, writes: newLedger(now), cancel: cancel}
	context.AfterFunc(ctx, func() { w.writes.close(time.Now()) })
	if err := w.watch(ctx); err != nil {
		w.Stop()
		return nil, err
	}
	select {
	case <-w.writes.first:
		return w, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startDeadline):
		err = errors.New("no member acknowledges a write: is this the node that the pods run on, and does the cluster have a quorum?")
	}
	w.Stop()
	return nil, fmt.Errorf("starting to write to StatefulSet %s/%s: %w", options.Namespace, options.StatefulSet, err)
}

// Stop stops measuring and returns the Report. It may be called more than once.
func (w *Writer) Stop() Report {
	w.stopped.Do(func() {
		w.writes.close(time.Now())
		w.cancel()
		w.members.wait()
		w.report = Report{Started: w.started, Sightings: w.leaders.list(), Pods: w.pods.list()}
		w.report.Writes, w.report.Attempted, w.report.Stopped = w.writes.list()
	})
	return w.report
}

// Acknowledged returns the number of writes acknowledged so far and the time of the last one.
func (w *Writer) Acknowledged() (number int, last time.Time) { return w.writes.acknowledged() }
