// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package buildinfo has the metric that says which build a program is.
package buildinfo

import (
	"maps"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/prometheus/client_golang/prometheus"
)

// New returns the metric.
func New() prometheus.Collector {
	labels := version.Get().Labels()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_foreman_build_info", Help: "The build of this program, in the labels. Always 1.",
	}, slices.Sorted(maps.Keys(labels)))
	info.With(labels).Set(1)
	return info
}
