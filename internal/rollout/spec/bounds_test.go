// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"strings"
	"testing"
)

// What is at a bound is allowed.
func TestBounds(t *testing.T) {
	for config, valid := range map[string]bool{
		"unreadyGracePeriod: 10s":                                                     true,
		"unreadyGracePeriod: 9s":                                                      false,
		"nonServingGracePeriod: 1s":                                                   true,
		"nonServingGracePeriod: 0s":                                                   false,
		"targetRevision: " + strings.Repeat("a", maxRevisionLength):                   true,
		"targetRevision: " + strings.Repeat("a", maxRevisionLength+1):                 false,
		"{targetRevision: " + strings.Repeat("a", maxRevisionLength+1) + ", no: way}": false,
	} {
		c, err := Decode(config)
		if (err == nil) != valid {
			t.Errorf("%s: %v", config, err)
		}
		if strings.Contains(config, "no: way") && c != (Config{}) {
			t.Errorf("%s: %+v", config, c)
		}
	}
	for config, valid := range map[string]bool{
		"":                             true,
		"targetRevision: main-1":       true,
		"no: way":                      false,
		"{targetRevision: a, no: way}": false,
		"targetRevision: " + strings.Repeat("a", maxRevisionLength+1): false,
	} {
		c, err := DecodeRecreate(config)
		if (err == nil) != valid {
			t.Errorf("recreate, %s: %v", config, err)
		}
		if strings.Contains(config, "no: way") && c != (Recreate{}) {
			t.Errorf("recreate, %s: %+v", config, c)
		}
	}
}
