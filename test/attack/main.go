// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command attack attacks the operator of a running cluster, mostly the local one (make up), as users who have no more rights than
// an attack needs, and prints what was tried, by whom, what was expected and what happened.
//
//	go run ./test/attack [-kubeconfig FILE] [-only NAME,...] [-healthy NAMESPACE/NAME] [-title TEXT] [-out FILE]
//
// It speaks with the API server, with the pods of members and of the operator, and with the volume of a backup store, as an
// attacker does. It imports nothing of the operator, so that it can attack older versions too.
//
// Users are impersonated. Their Roles have the rules of config/admission/task/task_roles.yaml. The administrator of the kubeconfig plays
// the owner of other objects, who is not attacked by name alone.
//
// What only a fault inside the operator can show is listed with the test that shows it. The program exits with 1 if an attack
// succeeds, or if one could not be tried.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/attack/backups"
	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/owners"
	"github.com/etcd-foreman/etcd-foreman/test/attack/rights"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	"github.com/etcd-foreman/etcd-foreman/test/attack/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/attack/texts"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// timeout of all attacks, which run side by side.
const timeout = 10 * time.Minute

// groups of attacks, each in a namespace of its own.
var groups = []engine.Group{
	{Name: "rights", Attacks: rights.Attacks},
	{Name: "tasks", Attacks: tasks.Attacks},
	{Name: "crowd", Attacks: tasks.Crowd},
	{Name: "owners", Attacks: owners.Attacks},
	{Name: "claims", Attacks: owners.Claims},
	{Name: "healthy", Attacks: tasks.Healthy},
	{Name: "backups", Attacks: backups.Attacks},
	{Name: "texts", Attacks: texts.Attacks},
}

type options struct {
	kubeconfig, roles, only, healthy, title, out string
	watch                                        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", ".local/kubeconfig", "kubeconfig of an administrator")
	flag.StringVar(&o.roles, "roles", "config/admission/task/task_roles.yaml", "the roles of users")
	flag.StringVar(&o.only, "only", "", "names of groups of attacks, separated by commas; default: all")
	flag.StringVar(&o.healthy, "healthy", "demo/etcd-main", "a healthy Etcd of three members")
	flag.DurationVar(&o.watch, "watch", 25*time.Second, "for how long something is watched that must not happen")
	flag.StringVar(&o.title, "title", "now", "title of the table")
	flag.StringVar(&o.out, "out", ".local/attack.md", "file for the table")
	flag.Parse()
	// Refusals are what the program is after: the libraries need not log them.
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w: run \"make up\", or name another with -kubeconfig", err)
	}
	s, err := scene.New(config, o.roles, o.healthy, o.watch)
	if err != nil {
		return err
	}
	some, err := chosen(o.only)
	if err != nil {
		return err
	}
	results := engine.Run(ctx, s, some, console.New(os.Stderr))
	table := engine.Render(o.title, results)
	fmt.Print(table)
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	if err := os.WriteFile(o.out, []byte(table), 0o644); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return engine.Verdict(results)
}

// chosen returns the groups to attack with.
func chosen(only string) ([]engine.Group, error) {
	if only == "" {
		return groups, nil
	}
	var some []engine.Group
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(groups, func(g engine.Group) bool { return g.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only names %q, which is no group of attacks", name)
		}
		some = append(some, groups[i])
	}
	return some, nil
}
