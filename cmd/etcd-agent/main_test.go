// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	cmd := rootCommand(logr.Discard())
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	g.Expect(cmd.Execute()).To(Succeed())
	g.Expect(out.String()).To(Equal(version.Get().Text("etcd-agent")))
}
