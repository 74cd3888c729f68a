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
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func main() { os.Exit(run()) }

func run() int {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.DisableStacktrace = true
	backend, err := config.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, "setting up the log:", err)
		return 1
	}
	log := zapr.NewLogger(backend)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(log).ExecuteContext(ctx); err != nil {
		log.Error(err, "Giving up")
		return 1
	}
	return 0
}

func command(log logr.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "etcd-agent",
		Short:         "Runs beside etcd in the pods of its members",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(prepare(log))
	return cmd
}

func prepare(log logr.Logger) *cobra.Command {
	options := member.Options{Name: os.Getenv(member.NameVariable)}
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Decide how the member starts, and write its configuration file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return member.Prepare(cmd.Context(), log, options)
		},
	}
	cmd.Flags().StringVar(&options.Name, "name", options.Name, "name of the member, by default $"+member.NameVariable)
	cmd.Flags().StringVar(&options.SharedDir, "shared-dir", member.SharedDir, "folder with the configuration that the members share")
	cmd.Flags().StringVar(&options.ConfigFile, "config-file", member.ConfigFile, "file to write")
	return cmd
}
