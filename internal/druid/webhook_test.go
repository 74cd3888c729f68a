// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"crypto/tls"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func TestLimitsOfTLS(t *testing.T) {
	g := NewWithT(t)
	_, server, err := NewWebhook(&rest.Config{Host: "http://127.0.0.1:1"}, ":9443", "ns", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
	g.Expect(err).NotTo(HaveOccurred())
	var config tls.Config
	for _, set := range server.(*webhook.DefaultServer).Options.TLSOpts {
		set(&config)
	}
	g.Expect(config.MinVersion).To(Equal(uint16(tls.VersionTLS13)))
	g.Expect(config.GetCertificate).NotTo(BeNil())
}
