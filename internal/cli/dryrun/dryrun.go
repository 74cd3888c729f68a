// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package dryrun is the flag --dry-run of the verbs that change something.
package dryrun

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/spf13/cobra"
)

// Mode is a value of the flag.
type Mode string

// The modes.
const (
	None   Mode = "none"
	Client Mode = "client"
	Server Mode = "server"
)

// AddTo adds the flag to a verb, with what the modes client and server do.
func (m *Mode) AddTo(cmd *cobra.Command, client, server string) {
	usage := fmt.Sprintf("none, client (%s) or server (%s).", client, server)
	cmd.Flags().StringVar((*string)(m), "dry-run", string(None), usage)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	complete.Values(cmd, "dry-run", string(None), string(Client), string(Server))
}

// Validate returns what is wrong with the flag; wait is the flag --wait.
func (m *Mode) Validate(wait bool) error {
	switch {
	case *m != None && *m != Client && *m != Server:
		return kube.Usage("--dry-run needs a value: client or server")
	case *m != None && wait:
		return kube.Usage("--wait and --dry-run exclude each other: a dry run changes nothing to wait for")
	}
	return nil
}

// Suffix is appended to the line that reports what was done.
func (m *Mode) Suffix() string {
	return map[Mode]string{Client: " (dry run)", Server: " (server dry run)"}[*m]
}
