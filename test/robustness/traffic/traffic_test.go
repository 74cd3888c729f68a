// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
)

// Every watcher gets the last write, or the run says which one did not. The members of an Etcd that is gone get none.
func TestCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Traffic{roster: &view.Roster{Sets: []string{"main", "next"}}}
		all.roster.Add(view.Pod{Name: "main-0"})
		for _, revision := range []int64{5, 9, 7} {
			all.sawRevision(revision)
		}
		reached := map[string]*atomic.Int64{"main-0": {}, "main-1": {}, "next-0": {}}
		reached["main-0"].Store(8)
		time.AfterFunc(10*time.Second, func() { reached["main-0"].Store(9) })
		began := time.Now()
		err := all.caughtUp(reached)
		if err == nil || !strings.HasPrefix(err.Error(), "watcher main-1 has got everything up to revision 0 only, and not the last write, at revision 9") || strings.Contains(err.Error(), "main-0") || strings.Contains(err.Error(), "next-0") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		reached["main-1"].Store(9)
		if err := all.caughtUp(reached); err != nil {
			t.Error(err)
		}
	})
}
