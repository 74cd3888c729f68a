// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command monitoring generates docs/metrics.md from the metrics that the code registers, and the dashboard for Grafana.
package main

import (
	"fmt"
	"os"
)

func main() {
	for path, generate := range files {
		content, err := generate()
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "generating %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

// files are generated, by their paths in the repository.
var files = map[string]func() ([]byte, error){
	"docs/metrics.md":                  metricsPage,
	"config/monitoring/dashboard.json": dashboardFile,
}
