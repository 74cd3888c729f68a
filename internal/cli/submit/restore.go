// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
)

// restoreTarget is the field to of the config of a Restore.
type restoreTarget struct {
	Time     string `json:"time,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Latest   bool   `json:"latest,omitempty"`
	Base     string `json:"base,omitempty"`
}

// restoreFrom is the field from.
type restoreFrom struct {
	Prefix string `json:"prefix"`
}

func restoreConfig(flags flagSet) func() (any, error) {
	to := flags.once("to", "The state to go back to: a time such as 2026-11-24T14:03:00Z, revision=N, snapshot=NAME or latest.")
	preview := flags.Bool("preview", false, "Only show what the restore would bring, which is also what happens without --confirm.")
	confirm := flags.once("confirm", "What the preview printed: go back, if that is still what it would bring.")
	undo := flags.once("undo", "The Restore to undo: go back to what the members had before it.")
	base := flags.once("base", "The full snapshot to begin with, if the newest one before the state is corrupt.")
	from := flags.once("from", "The prefix of the snapshots to restore, in the container of the Etcd's store (default: its own backup). Copy what another store has there first, with copy-backups.")
	keep := flags.Bool("keep-service", false, "Leave clients connected until the members stop: the final snapshot may lack what they write last.")
	auth := flags.Bool("accept-auth", false, "Clients may have to log in, with the users of that time.")
	writes := flags.Int64("max-writes-since", -1, "How many revisions may have been written since the preview (default: the operator's).")
	flags.Lookup("max-writes-since").DefValue = "0" // so that help does not show -1
	return func() (any, error) {
		if err := checkRestore(*to, *undo, *confirm, *preview); err != nil {
			return nil, err
		}
		if *undo != "" {
			for name, set := range map[string]bool{"preview": *preview, "base": *base != "", "from": *from != "", "accept-auth": *auth, "max-writes-since": *writes != -1} {
				if set {
					return nil, kube.Usage("--%s goes with --to, and has no effect on --undo", name)
				}
			}
		}
		if *writes < -1 {
			return nil, kube.Usage("--max-writes-since is %d: it must be at least 0", *writes)
		}
		c := struct {
			To             *restoreTarget `json:"to,omitempty"`
			Undo           string         `json:"undo,omitempty"`
			From           *restoreFrom   `json:"from,omitempty"`
			Confirm        string         `json:"confirm,omitempty"`
			KeepService    bool           `json:"keepService,omitempty"`
			AcceptAuth     bool           `json:"acceptAuth,omitempty"`
			MaxWritesSince *int64         `json:"maxWritesSince,omitempty"`
		}{Undo: *undo, Confirm: *confirm, KeepService: *keep, AcceptAuth: *auth}
		if *writes >= 0 {
			c.MaxWritesSince = writes
		}
		if *to == "" {
			return c, nil
		}
		target, err := parseTarget(*to)
		if err != nil {
			return nil, err
		}
		target.Base, c.To = *base, target
		if *from != "" {
			c.From = &restoreFrom{*from}
		}
		return c, nil
	}
}

// checkRestore returns an error unless the flags ask for one thing.
func checkRestore(to, undo, confirm string, preview bool) error {
	switch {
	case to == "" && undo == "":
		return kube.Usage("either --to or --undo is needed")
	case to != "" && undo != "":
		return kube.Usage("--to and --undo exclude each other")
	case confirm != "" && (undo != "" || preview):
		return kube.Usage("--confirm goes with --to alone")
	}
	return nil
}

// parseTarget parses a value of --to.
func parseTarget(text string) (*restoreTarget, error) {
	kind, value, _ := strings.Cut(text, "=")
	switch {
	case text == "latest":
		return &restoreTarget{Latest: true}, nil
	case kind == "snapshot" && value != "":
		return &restoreTarget{Snapshot: value}, nil
	case kind == "revision":
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 {
			return &restoreTarget{Revision: n}, nil
		}
	default:
		if _, err := time.Parse(time.RFC3339, text); err == nil {
			return &restoreTarget{Time: text}, nil
		}
	}
	return nil, kube.Usage("--to is %q: it must be a time such as 2026-11-24T14:03:00Z, revision=N, snapshot=NAME or latest", text)
}
