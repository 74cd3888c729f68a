// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
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
		c, err := taskconfig.Decode[Config](config)
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
		c, err := taskconfig.Decode[RecreateConfig](config)
		if (err == nil) != valid {
			t.Errorf("recreate, %s: %v", config, err)
		}
		if strings.Contains(config, "no: way") && c != (RecreateConfig{}) {
			t.Errorf("recreate, %s: %+v", config, c)
		}
	}
}

// Defaults and minimums hold also for a config that was not validated.
func TestGracePeriods(t *testing.T) {
	c := DefaultConfig()
	if !*c.LeaderHandover || c.Grace() != defaultUnreadyGracePeriod || c.shortGrace() != defaultNonServingGracePeriod {
		t.Errorf("%t %s %s", *c.LeaderHandover, c.Grace(), c.shortGrace())
	}
	c.UnreadyGracePeriod.Duration, c.NonServingGracePeriod.Duration = time.Second, time.Millisecond
	if c.Grace() != minUnreadyGracePeriod || c.shortGrace() != minNonServingGracePeriod {
		t.Errorf("%s %s", c.Grace(), c.shortGrace())
	}
	c.NonServingGracePeriod.Duration = 3*time.Second + time.Millisecond
	if c.shortGrace() != 3*time.Second {
		t.Error(c.shortGrace())
	}
}

func TestWords(t *testing.T) {
	if got := SupersededMessage("m", "m-1", "m-2"); got != "the update revision of StatefulSet m is m-2, not m-1: a task of its own replaces the pods that are outdated now" {
		t.Error(got)
	}
	if got := OnDeleteMessage("m"); got != "the update strategy of StatefulSet m is OnDelete" {
		t.Error(got)
	}
}
