// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(1, 4)
		if err != nil {
			t.Fatal(err)
		}
		w.Create(3)
		w.StartOperator(t, "op1", func(string) int { return 0 })
		w.Run(3*time.Minute, func() bool { return len(w.Broken) > 0 || w.Unfinished() == "" })
		t.Log(w.Now(), w.Trace.Len(), w.Unfinished(), w.Broken)
		for _, o := range w.operators {
			o.kill()
		}
		w.Close()
		_ = w.Trace.Write(os.Stdout)
	})
}
