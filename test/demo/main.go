// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command demo shows what template changes cost a 3-member etcd cluster. First etcd-foreman raises the resources of etcd in
// place. Then, while a member hangs, the pods are replaced: by etcd-foreman, and, with its feature gate off, by the StatefulSet's
// own RollingUpdate.
//
//	go run ./test/local up && go run ./test/demo
//
// It needs root and the local Kubernetes, because it freezes a process (SIGSTOP), and takes about four minutes. It writes
// .local/demo.json, .local/demo.svg and .local/demo.html. Even if interrupted, it leaves nothing frozen and the feature gate
// on. The Etcd keeps the higher resources. Switching the gate affects every Etcd of the cluster.
//
// The last two parts start in the same state: the same cluster, led by the same member, member 0 frozen and unready. The clock
// starts when the template changes, after the freeze; the cost of the freeze itself counts for neither.
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
	// The demo disturbs the cluster; what libraries log about that is noise.
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
	return d.all(ctx)
}
