// Command local boots a real Kubernetes on this machine, without a container
// registry and without a virtual machine, and takes it down again without a
// trace. It is what `make up`, `make down`, the end-to-end tests, the demo and
// the benchmarks run on.
//
//	go run ./test/local build [NAME...]   build the programs into .local/bin
//	go run ./test/local up [--bare]       boot; deploy the operator and a demo Etcd, unless --bare
//	go run ./test/local down              remove everything but .local/bin
//	go run ./test/local status            what runs
//
// With CLUSTER=current, up and down use the cluster of the current kubectl
// context instead of booting one, after asking; CLUSTER_CONFIRM=<context name>
// answers beforehand. Otherwise the KUBECONFIG of the environment is neither
// read nor written: the kubeconfig is .local/kubeconfig.
//
// Requirements: Linux and root; Debian's packages are installed as needed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/build"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/progress"
)

const usage = `usage: go run ./test/local VERB
  build [NAME...]  build the programs into .local/bin (all pinned ones, unless named)
  up [--bare]      boot the local Kubernetes and deploy the operator with a demo Etcd
  down             remove the local Kubernetes without a trace
  status           say what runs
CLUSTER=current up|down uses the current kubectl context instead.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	here, err := layout.Find(".")
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return fmt.Errorf("no verb given\n%s", usage)
	}
	printer := progress.New(os.Stderr)
	verb, rest := args[0], args[1:]
	switch {
	case verb == "build":
		return buildBinaries(ctx, here, printer, rest)
	default:
		return fmt.Errorf("unknown verb or argument: %v\n%s", args, usage)
	}
}

// buildBinaries is the verb build.
func buildBinaries(ctx context.Context, here layout.Layout, printer *progress.Printer, names []string) error {
	if len(names) == 0 {
		names = build.Pinned()
	}
	builder := build.Builder{Layout: here, Printer: printer, Assets: os.Getenv("KUBEBUILDER_ASSETS")}
	return builder.Build(ctx, names...)
}
