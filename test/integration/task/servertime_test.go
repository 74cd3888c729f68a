// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	. "github.com/onsi/gomega"
)

// The API server says what time it is, and stores nothing. Here its clock is that of the test.
func TestTimeOfTheAPIServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for range 2 {
		now, err := servertime.Now(t.Context(), testEnv.Client)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now).To(BeTemporally("~", time.Now(), time.Minute))
	}
}
