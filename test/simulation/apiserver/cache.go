// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache follows a Server, kind by kind: what it has of one kind may be older than what it has of another.
type Cache struct {
	Table
	server *Server
	// at is how many changes of each kind were delivered.
	at map[string]int
}

// NewCache makes a cache that begins with what a server had of each kind some changes ago, as one does that lists from an API server that
// lags behind.
func (s *Server) NewCache(ago func(kind string) int) *Cache {
	c := &Cache{Table: newTable(), server: s, at: map[string]int{}}
	for _, kind := range s.Kinds() {
		c.Relist(kind, ago(kind))
	}
	return c
}

// Since counts the changes of a kind since a time.
func (s *Server) Since(kind string, t time.Time) int {
	all := s.logs[kind]
	return len(all) - sort.Search(len(all), func(i int) bool { return all[i].At.After(t) })
}

// Changes counts the changes of a kind.
func (s *Server) Changes(kind string) int { return len(s.logs[kind]) }

// After returns an object as it was after so many changes of its kind; nil if there was none.
func (s *Server) After(kind string, changes int, key types.NamespacedName) client.Object {
	for i := min(changes, len(s.logs[kind])) - 1; i >= 0; i-- {
		if c := s.logs[kind][i]; c.Key == key {
			return c.After
		}
	}
	return nil
}

// Kinds returns the kinds that there have been objects of, by name.
func (s *Server) Kinds() (kinds []string) {
	for kind := range s.logs {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// Relist begins again with what the server had of a kind some changes ago.
func (c *Cache) Relist(kind string, ago int) {
	all := c.server.logs[kind]
	c.objects[kind], c.at[kind] = objects{}, 0
	delete(c.sorted, kind)
	for range max(len(all)-ago, 0) {
		c.Deliver(kind)
	}
}

// Behind returns how many changes of a kind were not delivered.
func (c *Cache) Behind(kind string) int { return len(c.server.logs[kind]) - c.at[kind] }

// Deliver delivers the next change of a kind, and returns it. There has to be one.
func (c *Cache) Deliver(kind string) Change {
	change := c.server.logs[kind][c.at[kind]]
	c.at[kind]++
	c.take(change)
	return change
}
