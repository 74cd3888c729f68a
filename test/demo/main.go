// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command demo shows what a change of template costs a 3-member etcd cluster one member of which hangs: first
// rolled by etcd-foreman, then, with its feature gate off, by the StatefulSet's own RollingUpdate.
//
//	go run ./test/local up && go run ./test/demo
//
// It needs root and the local Kubernetes, because it freezes a process (SIGSTOP), and takes about four
// minutes. It leaves .local/demo.json, .local/demo.svg and .local/demo.html, nothing frozen, and the feature
// gate on, also when it is interrupted. While it switches the gate, that holds for every Etcd of the cluster.
//
// Both parts begin alike: the same cluster, led by the same member, member 0 frozen and seen to be unready.
// The clock starts when the template changes, which is after the freeze; what the freeze itself costs is
// counted for neither.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	// The benchmark disturbs the cluster; what libraries log about that is noise.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := stage.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	d := &demo{
		cluster: stage.Cluster{Stage: s, Namespace: "demo", Name: "etcd-main"},
		console: console.New(os.Stdout),
	}
	return d.both(ctx)
}
