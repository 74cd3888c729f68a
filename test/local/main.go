// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command local boots a real Kubernetes on this machine, without a container registry and without a virtual machine, and
// takes it down without a trace. `make up`, `make down`, the end-to-end tests, the demo and the benchmarks use it.
//
//	go run ./test/local build [NAME...]   build the programs into .local/bin
//	go run ./test/local up [FLAG...]      boot; deploy the operator and a demo Etcd, unless --bare; --kubernetes 1.33 boots that release;
//	                                      --all-etcds adds images of all releases of etcd that tests run, not only the default
//	go run ./test/local down              remove everything but .local/bin
//	go run ./test/local status            show what is running
//	go run ./test/local operator ROOT     run the operator that was built in another source tree, ROOT/.local/bin
//
// With CLUSTER=current, up and down ask for confirmation, and then use the cluster of the current kubectl context instead
// of booting one; CLUSTER_CONFIRM=<context name> answers beforehand. Otherwise the KUBECONFIG of the environment is
// neither read nor written: the kubeconfig is .local/kubeconfig.
//
// It needs Linux and root. Missing Debian packages are installed, and stay.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/build"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/current"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

const usage = `usage: go run ./test/local VERB
  build [NAME...]  build the programs into .local/bin (all pinned ones, unless named)
  up [FLAG...]     boot the local Kubernetes and deploy the operator with a demo Etcd, unless --bare;
                   --kubernetes RELEASE boots an older release, such as 1.33; --all-etcds
                   adds images of all releases of etcd that tests run, not only the default
  down             remove the local Kubernetes without a trace
  status           show what is running
  operator ROOT    run the operator that was built in another source tree, ROOT/.local/bin
CLUSTER=current up|down uses the current kubectl context instead.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// program is what every verb needs.
type program struct {
	layout  layout.Layout
	console *console.Console
	builder build.Builder
}

func run(ctx context.Context, args []string) error {
	here, err := layout.Find(".")
	if err != nil {
		return err
	}
	// The PATH of a root shell inside a user's may lack the folders of nft and ip.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin"); err != nil {
		return fmt.Errorf("extending PATH: %w", err)
	}
	console := console.New(os.Stderr)
	p := program{layout: here, console: console, builder: build.Builder{Layout: here, Console: console}}
	isCurrent, err := current.Chosen(os.Getenv)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return fmt.Errorf("no verb given\n%s", usage)
	}
	verb, rest := args[0], args[1:]
	switch {
	case verb == "build":
		return p.build(ctx, rest)
	case verb == "up" && isCurrent && len(rest) == 0:
		return p.upCurrent(ctx)
	case verb == "down" && isCurrent && len(rest) == 0:
		return p.downCurrent(ctx)
	case verb == "up" && !isCurrent:
		options, err := readUpOptions(rest)
		if err != nil {
			return err
		}
		return p.up(ctx, options)
	case verb == "down" && !isCurrent && len(rest) == 0:
		return p.down(ctx)
	case verb == "operator" && !isCurrent && len(rest) == 1:
		return p.operator(ctx, rest[0])
	case verb == "status" && !isCurrent && len(rest) == 0:
		return p.status(ctx)
	}
	return fmt.Errorf("unknown verb or argument: %v\n%s", args, usage)
}

// build is the verb build. It uses the ready-made binaries in KUBEBUILDER_ASSETS; the other verbs do not, so that every
// cluster runs the same versions.
func (p program) build(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = build.Pinned("", true)
	}
	p.builder.Assets = os.Getenv("KUBEBUILDER_ASSETS")
	return p.builder.Build(ctx, names...)
}
