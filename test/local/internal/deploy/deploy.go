// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package deploy deploys the operator and the demo Etcd to a cluster, the local one or another, waits until they are
// ready, and removes them.
package deploy

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/kubectl"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// Timeouts, many times longer than needed.
const (
	operatorTimeout = 2 * time.Minute
	demoTimeout     = 3 * time.Minute
)

// The demo Etcd.
const (
	demoNamespace = "demo"
	demoEtcd      = "etcd/etcd-main"
)

// Deployment is what to deploy and where.
type Deployment struct {
	Layout  layout.Layout
	Kubectl kubectl.Kubectl
	Console *console.Console
	// Images replaces the names of images in the manifests, which name local images.
	Images map[string]string
	// Restart replaces the operator's pods even if the manifests are the same: its image has changed under the same name.
	Restart bool
}

// Up deploys the operator and the demo Etcd and waits until both are ready.
func (d Deployment) Up(ctx context.Context) error {
	err := d.Console.Step("operator", func(note func(string)) (string, error) {
		note("deploying")
		return "ready", d.operator(ctx)
	})
	if err != nil {
		return fmt.Errorf("deploying the operator: %w", err)
	}
	err = d.Console.Step("demo Etcd", func(note func(string)) (string, error) {
		note("waiting for etcd-main in namespace " + demoNamespace)
		return "ready", d.demo(ctx)
	})
	if err != nil {
		return fmt.Errorf("creating the demo Etcd: %w", err)
	}
	return nil
}

// Down removes the demo Etcd, and then the operator, which must be running for that.
func (d Deployment) Down(ctx context.Context) error {
	for _, part := range []string{"demo", ""} {
		name := "removing " + map[string]string{"demo": "demo Etcd", "": "operator"}[part]
		err := d.Console.Step(name, func(func(string)) (string, error) {
			manifest, err := d.render(ctx, part)
			if err != nil {
				return "", err
			}
			return "done", d.Kubectl.Delete(ctx, manifest)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (d Deployment) operator(ctx context.Context) error {
	const deployment, namespace = "deployment/" + layout.OperatorName, "--namespace=" + layout.OperatorNamespace
	existing, err := d.Kubectl.Run(ctx, "get", deployment, namespace, "--ignore-not-found", "--output=name")
	if err != nil {
		return err
	}
	if err := d.apply(ctx, ""); err != nil {
		return err
	}
	if d.Restart && existing != "" {
		if _, err := d.Kubectl.Run(ctx, "rollout", "restart", deployment, namespace); err != nil {
			return err
		}
	}
	if _, err := d.Kubectl.Run(ctx, "rollout", "status", deployment, namespace, "--timeout="+operatorTimeout.String()); err != nil {
		return fmt.Errorf("%w%s", err, d.explain(ctx, layout.OperatorNamespace, deployment))
	}
	return nil
}

func (d Deployment) demo(ctx context.Context) error {
	if err := d.apply(ctx, "demo"); err != nil {
		return err
	}
	if err := d.Kubectl.WaitReady(ctx, demoEtcd, demoNamespace, demoTimeout); err != nil {
		return fmt.Errorf("%w%s", err, d.explain(ctx, demoNamespace, ""))
	}
	return nil
}

// apply applies a kustomization below test/local/deploy.
func (d Deployment) apply(ctx context.Context, folder string) error {
	manifest, err := d.render(ctx, folder)
	if err != nil {
		return err
	}
	return d.Kubectl.Apply(ctx, manifest)
}

// render returns the manifests of a kustomization below test/local/deploy, with the images replaced.
func (d Deployment) render(ctx context.Context, folder string) (string, error) {
	path := filepath.Join(d.Layout.Root, "test/local/deploy", folder)
	manifest, err := d.Kubectl.Run(ctx, "kustomize", path)
	if err != nil {
		return "", fmt.Errorf("rendering %s: %w", path, err)
	}
	for from, to := range d.Images {
		manifest = strings.ReplaceAll(manifest, from, to)
	}
	return manifest, nil
}

// explain returns what to check first when something in a namespace does not become ready: its pods, warnings and log.
// It is the end of an error, so what cannot be read is left out.
func (d Deployment) explain(ctx context.Context, namespace, logsOf string) string {
	var explanation strings.Builder
	add := func(title string, args ...string) {
		out, err := d.Kubectl.Run(ctx, append(args, "--namespace="+namespace)...)
		if err == nil && strings.TrimSpace(out) != "" {
			fmt.Fprintf(&explanation, "\n%s in namespace %s:\n  %s", title, namespace, strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n  "))
		}
	}
	add("pods", "get", "pods", "--output=wide")
	add("warnings", "events", "--types=Warning")
	if logsOf != "" {
		add("last lines of the log", "logs", logsOf, "--tail=15", "--all-containers")
	}
	return explanation.String()
}
