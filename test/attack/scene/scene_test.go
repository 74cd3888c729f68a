// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// What is expected not to happen is watched, and an attack that ends early is an error.
func TestWithin(t *testing.T) {
	g := NewWithT(t)
	never := func() bool { return false }
	for name, c := range map[string]struct {
		happens func() bool
		want    bool
	}{"never": {never, false}, "at once": {func() bool { return true }, true}} {
		got, err := Within(t.Context(), time.Millisecond, func(context.Context) (bool, error) { return c.happens(), nil })
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(got).To(Equal(c.want), name)
	}
}
