// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestDetailsWait(t *testing.T) {
	for name, c := range map[string]struct {
		last  written
		after time.Duration
		waits bool
	}{
		"an operator that has just started writes":   {written{}, 0, false},
		"a hold that has just begun is not told yet": {written{at: epoch, urgent: true}, 4 * time.Second, true},
		"one that lasts is":                          {written{at: epoch, urgent: true}, 5 * time.Second, false},
		"another wording of it waits for longer":     {written{at: epoch, urgent: false}, 9 * time.Second, true},
		"and is told in the end":                     {written{at: epoch, urgent: false}, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(putOff(c.last, epoch.Add(c.after)) > 0).To(Equal(c.waits))
		})
	}
}
