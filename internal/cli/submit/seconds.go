// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"errors"
	"math"
	"strconv"
	"time"
)

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
