// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// A kubeconfig that does not exist or is empty is the user's mistake, not an API server on this machine that does not answer.
func TestNoClusterIsConfigured(t *testing.T) {
	for name, content := range map[string]*string{"missing": nil, "empty": new(string)} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if content != nil {
				g.Expect(os.WriteFile(path, []byte(*content), 0o600)).To(Succeed())
			}
			t.Setenv("KUBECONFIG", path)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBERNETES_MASTER", "")

			_, err := New(genericiooptions.NewTestIOStreamsDiscard()).Connect()
			g.Expect(err).To(MatchError(And(HavePrefix("no cluster is configured: "), ContainSubstring(path), ContainSubstring("--kubeconfig"))))
			g.Expect(Code(err)).To(Equal(exitUsage))

			k := New(genericiooptions.NewTestIOStreamsDiscard())
			*k.Flags.APIServer = "http://localhost:8080"
			c, err := k.Connect()
			g.Expect(err).NotTo(HaveOccurred(), "a server that the user names")
			g.Expect(c.Config.Host).To(Equal("http://localhost:8080"))
			t.Setenv("KUBERNETES_MASTER", "http://localhost:8080")
			_, err = New(genericiooptions.NewTestIOStreamsDiscard()).Connect()
			g.Expect(err).NotTo(HaveOccurred(), "a server that the environment names")
		})
	}
}
