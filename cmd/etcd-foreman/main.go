// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command etcd-foreman is the operator: flags, configuration, wiring, and nothing else.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// gcPercent is how much the heap may grow before it is collected, unless GOGC is set.
const gcPercent = 30

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "etcd-foreman:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("config", "", "file with the OperatorConfiguration")
	publish := flag.Bool("publish-webhook-ca", false, "only write the CA of the webhook of mode Executor to the webhook's configuration")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		fmt.Print(version.Get().Text("etcd-foreman"))
		return nil
	}
	if *file == "" {
		return fmt.Errorf("--config is required: file with the OperatorConfiguration")
	}
	config, err := configv1alpha1.Load(*file)
	if err != nil {
		return err
	}
	logger, err := newLogger(config.Logging)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	if *publish {
		return operator.PublishWebhookCA(ctrl.SetupSignalHandler(), config)
	}
	if os.Getenv("GOGC") == "" {
		// Most of the heap are caches, which change little: letting it double before a collection gains nothing.
		debug.SetGCPercent(gcPercent)
	}
	return operator.Run(ctrl.SetupSignalHandler(), config)
}

// newLogger makes the logger, which client-go logs to as well.
func newLogger(config configv1alpha1.Logging) (logr.Logger, error) {
	c := zap.NewProductionConfig()
	c.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	c.DisableStacktrace = true
	// No step of a rollout may be dropped.
	c.Sampling = nil
	if config.Format == configv1alpha1.LogFormatText {
		c.Encoding = "console"
	}
	if err := c.Level.UnmarshalText([]byte(config.Level)); err != nil {
		return logr.Logger{}, fmt.Errorf("reading logging.level: %w", err)
	}
	logger, err := c.Build(logging.Bounded())
	if err != nil {
		return logr.Logger{}, fmt.Errorf("making the logger: %w", err)
	}
	log := zapr.NewLogger(logger)
	klog.SetLogger(log)
	return log, nil
}
