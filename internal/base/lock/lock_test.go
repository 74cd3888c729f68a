// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"sync"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestLocksAreByEtcdAndLeaveNothingBehind(t *testing.T) {
	g := NewWithT(t)
	var locks Locks
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	unlock := locks.Lock(a)
	locks.Lock(b)() // another Etcd does not wait

	var inside, most int
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			defer locks.Lock(a)()
			inside++
			most = max(most, inside)
			inside--
		})
	}
	unlock()
	all.Wait()
	g.Expect(most).To(Equal(1))
	g.Expect(locks.locks).To(BeEmpty())
}

// Whoever comes second waits until the first is done, and goes on then.
func TestLocksExclude(t *testing.T) {
	g := machine.Gomega(t)
	var locks Locks
	a := types.NamespacedName{Name: "a"}
	unlock := locks.Lock(a)
	entered := make(chan struct{})
	go func() {
		defer locks.Lock(a)()
		close(entered)
	}()
	users := func() int {
		locks.mu.Lock()
		defer locks.mu.Unlock()
		if k := locks.locks[a]; k != nil {
			return k.users
		}
		return 0
	}
	g.Eventually(users).Should(Equal(2))
	g.Expect(entered).NotTo(BeClosed())
	unlock()
	g.Eventually(entered).Should(BeClosed())
	g.Eventually(users).Should(BeZero())
}
