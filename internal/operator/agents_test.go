// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"
)

// Agents are reached also while the client Service selects no member, and the error is that of the Service if none answers.
func TestDialOr(t *testing.T) {
	g := NewWithT(t)
	agent, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer agent.Close() //nolint:errcheck // the test ends
	_, port, err := net.SplitHostPort(agent.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	service := net.JoinHostPort("127.0.0.2", port)

	_, err = dialOr(nil)(t.Context(), "tcp", service)
	g.Expect(err).To(MatchError(ContainSubstring("127.0.0.2")))
	conn, err := dialOr([]string{"127.0.0.3", "127.0.0.1"})(t.Context(), "tcp", service)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.RemoteAddr().String()).To(Equal(agent.Addr().String()))
	g.Expect(conn.Close()).To(Succeed())
	conn, err = dialOr(nil)(t.Context(), "tcp", agent.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.Close()).To(Succeed())
}
