// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command etcd-agent runs in the pods of the members, beside etcd.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// gcPercent is how much the heap may grow before it is collected, unless GOGC is set.
const gcPercent = 30

func main() { os.Exit(run()) }

func run() int {
	if os.Getenv("GOGC") == "" {
		// Most of the heap are parts of an upload; etcd needs the memory more.
		debug.SetGCPercent(gcPercent)
	}
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.DisableStacktrace = true
	backend, err := config.Build(logging.Bounded())
	if err != nil {
		fmt.Fprintln(os.Stderr, "setting up the log:", err)
		return 1
	}
	log := zapr.NewLogger(backend)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := rootCommand(log).ExecuteContext(ctx); err != nil {
		log.Error(err, "Failed")
		return 1
	}
	return 0
}

func rootCommand(log logr.Logger) *cobra.Command {
	build := version.Get()
	cmd := &cobra.Command{
		Use:           "etcd-agent",
		Short:         "Runs beside etcd in the pods of its members",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       build.Text("etcd-agent"),
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			log.Info("Starting", append(build.KeysAndValues(), "command", cmd.Name())...)
		},
	}
	cmd.SetVersionTemplate("{{.Version}}")
	cmd.AddCommand(prepareCommand(log), serveCommand(log), compactCommand(log), copyCommand(log), previewCommand(log), snapshotPrefixesCommand(log), surveyCommand(), finalSnapshotCommand(log))
	return cmd
}
