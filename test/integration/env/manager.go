// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// StartManager starts a manager for one namespace, with the operator's cache and the controllers that setup adds. It runs until stop is called, or
// until the test ends, and writes to the test's log.
func (e *Env) StartManager(t testing.TB, as *rest.Config, namespace string, setup func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	mgr := e.NewManager(t, as, namespace, setup)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("running the operator: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// NewManager makes such a manager and does not start it.
func (e *Env) NewManager(t testing.TB, as *rest.Config, namespace string, setup func(ctrl.Manager) error) ctrl.Manager {
	t.Helper()
	cached, err := composed.CacheOptions(namespace)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(as, ctrl.Options{
		Scheme:     e.Scheme,
		Logger:     Log(t),
		Cache:      cached,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), ReconciliationTimeout: composed.ReconcileTimeout},
	})
	if err != nil {
		t.Fatalf("making a manager: %v", err)
	}
	if err := etcdtasks.Index(t.Context(), mgr.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		t.Fatal(err)
	}
	return mgr
}

// Log returns a logger that writes to a test's log, which is shown if the test fails. It drops lines after the test's end.
func Log(t testing.TB) logr.Logger {
	var mu sync.Mutex
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	log := funcr.New(func(prefix, line string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, line)
		}
	}, funcr.Options{LogTimestamp: true})
	return logr.New(sink{log.GetSink(), ""})
}

// sink remembers which controller logs, and leaves out what every manager says when it starts and stops.
type sink struct {
	logr.LogSink
	controller string
}

// everyManager says these, for each of its controllers and watches.
var everyManager = []string{"Starting ", "Stopping ", "Shutdown signal received", "All workers finished", "Wait completed"}

// Info implements logr.LogSink.
func (s sink) Info(level int, message string, values ...any) {
	if !slices.ContainsFunc(everyManager, func(start string) bool { return strings.HasPrefix(message, start) }) {
		s.LogSink.Info(level, message, values...)
	}
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	for i := 0; i+1 < len(values); i += 2 {
		if name, ok := values[i+1].(string); ok && values[i] == "controller" {
			s.controller = name
		}
	}
	s.LogSink = s.LogSink.WithValues(values...)
	return s
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink {
	s.LogSink = s.LogSink.WithName(name)
	return s
}

// ReconcileOf returns the ID of the reconcile of a controller to which a context belongs; empty for any other context.
func ReconcileOf(ctx context.Context, c composed.Controller) types.UID {
	if s, ok := ctrl.LoggerFrom(ctx).GetSink().(sink); ok && s.controller == string(c) {
		return controller.ReconcileIDFromContext(ctx)
	}
	return ""
}
