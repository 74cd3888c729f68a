// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-etcdtask is the kubectl plugin: "kubectl etcdtask".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/internal/cli"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/executor"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	// Clusters whose credentials come from a cloud's or a company's own log-in.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		// The terminal is closed. With nohup, that is ignored.
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	k := kube.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	k.Rule = executor.Either{}
	code := cli.Run(ctx, k, os.Args[1:])
	stop()
	os.Exit(code)
}
