// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/boot"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/build"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/clean"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/deploy"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/host"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/image"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/lock"
)

// operatorBinaries are the programs of this repository that run in the cluster.
var operatorBinaries = []string{"etcd-foreman", "etcd-agent"}

// upOptions are the flags of the verb up.
type upOptions struct {
	bare     bool
	release  string // of Kubernetes; empty for the current one
	allEtcds bool   // images of all releases of etcd that tests run, not only the default
}

func readUpOptions(args []string) (upOptions, error) {
	var options upOptions
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.BoolVar(&options.bare, "bare", false, "without the operator")
	flags.StringVar(&options.release, "kubernetes", "", "`release` of Kubernetes, such as 1.33")
	flags.BoolVar(&options.allEtcds, "all-etcds", false, "with images of all releases of etcd that tests run, not only the default")
	if err := flags.Parse(args); err != nil {
		return options, fmt.Errorf("reading the flags of up: %w", err)
	}
	if flags.NArg() > 0 {
		return options, fmt.Errorf("up takes no arguments, and got %v", flags.Args())
	}
	return options, nil
}

// up is the verb up for the local Kubernetes.
func (p program) up(ctx context.Context, options upOptions) error {
	if err := build.CheckRelease(options.release); err != nil {
		return err
	}
	if err := host.Prepare(ctx, p.console); err != nil {
		return fmt.Errorf("checking what this machine needs:\n%w", err)
	}
	names := build.Pinned(options.release, options.allEtcds)
	if !options.bare {
		names = append(names, operatorBinaries...)
		if _, err := os.Stat(filepath.Join(p.layout.Root, "cmd", operatorBinaries[0])); err != nil {
			return fmt.Errorf("finding the operator: %w; for a cluster without it use up --bare", err)
		}
	}
	if err := p.builder.Build(ctx, names...); err != nil {
		return err
	}
	held, err := lock.Machine(ctx, p.console)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	cluster := boot.New(p.layout, options.release)
	cluster.AllEtcds = options.allEtcds
	err = p.console.Step("Kubernetes", func(note func(string)) (string, error) {
		started, err := cluster.Up(ctx, note)
		if !started {
			return "already running", err
		}
		return "ready", err
	})
	if err != nil {
		return fmt.Errorf("booting the local Kubernetes: %w", err)
	}
	if !options.bare {
		if err := p.deployLocal(ctx, cluster); err != nil {
			return err
		}
	}
	p.console.Line("export KUBECONFIG=%s", p.layout.Kubeconfig())
	return nil
}

// deployLocal deploys the operator, as it is in the checkout, to the local Kubernetes.
func (p program) deployLocal(ctx context.Context, cluster *boot.Cluster) error {
	changed := false
	err := p.console.Step("images", func(func(string)) (string, error) {
		if _, err := image.Import(ctx, p.layout, image.Agent); err != nil {
			return "", err
		}
		var err error
		changed, err = image.Import(ctx, p.layout, image.Operator)
		return "imported", err
	})
	if err != nil {
		return err
	}
	return deploy.Deployment{Layout: p.layout, Kubectl: cluster.Kubectl, Console: p.console, Restart: changed}.Up(ctx)
}

// operator is the verb operator: the operator's pods are replaced by those of another one, which is built already.
func (p program) operator(ctx context.Context, root string) error {
	if _, err := image.Import(ctx, layout.Layout{Root: root}, image.Operator); err != nil {
		return err
	}
	const deployment, namespace = "deployment/" + layout.OperatorName, "--namespace=" + layout.OperatorNamespace
	kubectl := boot.New(p.layout, "").Kubectl
	if _, err := kubectl.Run(ctx, "rollout", "restart", deployment, namespace); err != nil {
		return err
	}
	_, err := kubectl.Run(ctx, "rollout", "status", deployment, namespace, "--timeout=2m")
	return err
}

// down is the verb down for the local Kubernetes.
func (p program) down(ctx context.Context) error {
	if err := host.Check(); err != nil {
		return err
	}
	held, err := lock.Machine(ctx, p.console)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	return p.console.Step("removing Kubernetes", func(func(string)) (string, error) {
		return "nothing is left", clean.Down(ctx, p.layout)
	})
}

// status is the verb status.
func (p program) status(ctx context.Context) error {
	owner, owned, err := layout.ReadOwner()
	if err != nil {
		return err
	}
	if !owned {
		return errors.New("the local Kubernetes is down")
	}
	cluster := boot.New(owner, "")
	running, err := cluster.Running()
	if err != nil {
		return err
	}
	var names []string
	for _, process := range running {
		names = append(names, fmt.Sprintf("%s (%d)", process.Name, process.Identity.PID))
	}
	fmt.Printf("running:    %s\n", strings.Join(names, ", "))
	fmt.Printf("kubeconfig: %s\nlogs:       %s\n", owner.Kubeconfig(), owner.Logs())
	out, err := cluster.Kubectl.Run(ctx, "get", "nodes,pods", "--all-namespaces", "--request-timeout=5s")
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	fmt.Print(out)
	return nil
}
