// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"os"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/current"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/deploy"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/image"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/kubectl"
	"golang.org/x/term"
)

// upstreamEtcd replaces the etcd image of the local Kubernetes: any other cluster can pull it.
const upstreamEtcd = "gcr.io/etcd-development/etcd:v3.6.16"

// upCurrent is the verb up for the current kubectl context.
func (p program) upCurrent(ctx context.Context) error {
	deployment, target, err := p.confirmed(ctx, "deploy the operator and a demo Etcd to")
	if err != nil {
		return err
	}
	if name, isKind := target.KindCluster(); isKind && len(deployment.Images) == 1 {
		if err := p.loadIntoKind(ctx, name); err != nil {
			return err
		}
		deployment.Restart = true
	} else {
		p.console.Line("The cluster must be able to pull %s and %s.",
			cmp.Or(os.Getenv("IMAGE"), image.Operator.Name), cmp.Or(os.Getenv("AGENT_IMAGE"), image.Agent.Name))
	}
	return deployment.Up(ctx)
}

// downCurrent is the verb down for the current kubectl context.
func (p program) downCurrent(ctx context.Context) error {
	deployment, _, err := p.confirmed(ctx, "remove the operator, its definitions and every Etcd from")
	if err != nil {
		return err
	}
	return deployment.Down(ctx)
}

// confirmed returns a deployment to the cluster of the current context, once the user has agreed to it.
func (p program) confirmed(ctx context.Context, action string) (deploy.Deployment, current.Context, error) {
	target, err := current.Find()
	if err != nil {
		return deploy.Deployment{}, current.Context{}, err
	}
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	if err := target.Confirm(action, os.Getenv("CLUSTER_CONFIRM"), terminal, os.Stdin, os.Stderr); err != nil {
		return deploy.Deployment{}, current.Context{}, err
	}
	if err := p.builder.Build(ctx, "kubectl"); err != nil {
		return deploy.Deployment{}, current.Context{}, err
	}
	images := map[string]string{image.Etcd.Name: upstreamEtcd}
	if name := os.Getenv("IMAGE"); name != "" {
		images[image.Operator.Name] = name
	}
	if name := os.Getenv("AGENT_IMAGE"); name != "" {
		images[image.Agent.Name] = name
	}
	// The context is named, so that it stays the same if the user switches to another.
	client := kubectl.Kubectl{Path: p.layout.Binary("kubectl"), Context: target.Name}
	return deploy.Deployment{Layout: p.layout, Kubectl: client, Console: p.console, Images: images}, target, nil
}

// loadIntoKind builds the images and puts them on the nodes of a kind cluster.
func (p program) loadIntoKind(ctx context.Context, cluster string) error {
	if err := p.builder.Build(ctx, operatorBinaries...); err != nil {
		return err
	}
	for _, img := range []image.Image{image.Operator, image.Agent} {
		err := p.console.Step(img.Name, func(func(string)) (string, error) {
			return "loaded into kind", image.LoadIntoKind(ctx, p.layout, img, cluster)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
