// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Every part is late by the delay, and not by the sum of all delays.
func TestDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, says := io.Pipe()
		go func() {
			for range 10 {
				_, _ = says.Write([]byte("x"))
				<-time.After(10 * time.Millisecond)
			}
			_ = says.Close()
		}()
		var got bytes.Buffer
		var answers atomic.Int64
		began := time.Now()
		delayed(&got, server, time.Second, func() { answers.Add(1) })
		if took := time.Since(began); got.String() != "xxxxxxxxxx" || answers.Load() != 10 || took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("%d answers, %q in %s", answers.Load(), got.String(), took)
		}
	})
}
