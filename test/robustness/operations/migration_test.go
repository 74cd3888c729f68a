// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"fmt"
	"strings"
	"testing"
)

// A cluster that moves to and fro names all its members as the source, at their own addresses, and by names that the API server takes for
// those of another Etcd.
func TestAsSource(t *testing.T) {
	c := &Cluster{Namespace: "robustness", Name: "main", Other: "next", Members: 3}
	for range 2 {
		source := c.asSource()
		if len(source.Members) != 3 || len(source.ClientEndpoints) != 3 {
			t.Fatalf("%+v", source)
		}
		for i, m := range source.Members {
			host := fmt.Sprintf("http://%[1]s-%[2]d.%[1]s-peer.robustness.svc:", c.Name, i)
			if m.PeerURLs[0] != host+"2380" || source.ClientEndpoints[i] != host+"2379" || strings.HasPrefix(m.Name, c.Other+"-") {
				t.Errorf("%+v at %s", m, source.ClientEndpoints[i])
			}
		}
		c = c.other()
	}
	if c.Name != "main" || c.Other != "next" {
		t.Errorf("it is at %s, and goes to %s", c.Name, c.Other)
	}
}
