// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

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
