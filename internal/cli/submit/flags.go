// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/spf13/cobra"
)

// dryRunMode is a value of the flag --dry-run.
type dryRunMode string

const (
	dryRunNone   dryRunMode = "none"
	dryRunClient dryRunMode = "client"
	dryRunServer dryRunMode = "server"
)

// addTo adds the flag to a verb. client and server are what these modes do.
func (m *dryRunMode) addTo(cmd *cobra.Command, client, server string) {
	usage := fmt.Sprintf("none, client (%s) or server (%s).", client, server)
	cmd.Flags().StringVar((*string)(m), "dry-run", string(dryRunNone), usage)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	kube.CompleteValues(cmd, "dry-run", string(dryRunNone), string(dryRunClient), string(dryRunServer))
}

// validate returns what is wrong with the flag; wait is the flag --wait.
func (m *dryRunMode) validate(wait bool) error {
	switch {
	case *m != dryRunNone && *m != dryRunClient && *m != dryRunServer:
		return kube.Usage("--dry-run needs a value: client or server")
	case *m != dryRunNone && wait:
		return kube.Usage("--wait and --dry-run exclude each other: a dry run changes nothing to wait for")
	}
	return nil
}

// suffix is appended to the line that reports what was done.
func (m *dryRunMode) suffix() string {
	return map[dryRunMode]string{dryRunClient: " (dry run)", dryRunServer: " (server dry run)"}[*m]
}

// seconds is a flag that takes a duration, such as 24h, or a number of seconds.
type seconds int32

// Set implements pflag.Value.
func (s *seconds) Set(value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("it must be a duration such as 24h, or a number of seconds")
		}
		// A part of a second counts as a whole one.
		n = int64(math.Ceil(d.Seconds()))
	}
	if n < 0 || n > math.MaxInt32 {
		return errors.New("it must be between 0s and " + (math.MaxInt32 * time.Second).String())
	}
	*s = seconds(n)
	return nil
}

// String implements pflag.Value.
func (s *seconds) String() string { return (time.Duration(*s) * time.Second).String() }

// Type implements pflag.Value.
func (*seconds) Type() string { return "duration" }

// once is a flag that is given once: of two values, neither is silently ignored.
type once string

// Set implements pflag.Value.
func (o *once) Set(value string) error {
	if *o != "" {
		return fmt.Errorf("it was given before, as %q", string(*o))
	}
	*o = once(value)
	return nil
}

// String implements pflag.Value.
func (o *once) String() string { return string(*o) }

// Type implements pflag.Value.
func (*once) Type() string { return "string" }

// once adds a flag that is given once.
func (f flagSet) once(name, usage string) *string {
	into := new(once)
	f.Var(into, name, usage)
	return (*string)(into)
}
