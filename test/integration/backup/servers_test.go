// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

const (
	bucket = "backups"
	prefix = "shoot-a/etcd-main"
	access = "access-key-id"
	secret = "a-secret-access-key"
)

// server is a program that listens on an address.
type server struct {
	t       testing.TB
	address string
	command []string
	process *exec.Cmd
}

// serve starts a test program and waits until it serves.
func serve(t testing.TB, address string, command ...string) *server {
	t.Helper()
	s := &server{t: t, address: address, command: command}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	NewWithT(s.t).Eventually(func() error {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		return connection.Close()
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

func (s *server) stop() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// credentials creates a folder with credentials.
func credentials(t testing.TB, keys map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range keys {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// s3 is an S3 server in front of a folder.
type s3 struct {
	*server
	dir string
}

func startS3(t testing.TB) *s3 {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	return newS3(t, dir)
}

// startSmallS3 starts a server on a private filesystem of the given number of MiB.
func startSmallS3(t testing.TB, mib int) *s3 {
	dir := t.TempDir()
	return newS3(t, dir, "/usr/bin/unshare", "--map-root-user", "--mount", "/bin/sh", "-ec",
		fmt.Sprintf(`mount -t tmpfs -o size=%dm tmpfs "$0"; mkdir "$0/%s"; exec "$@"`, mib, bucket), dir)
}

// newS3 runs the server, within another command if one is given.
func newS3(t testing.TB, dir string, within ...string) *s3 {
	address := machine.FreeAddress(t)
	// Without metadata: not every filesystem has extended attributes.
	return &s3{serve(t, address, append(within, machine.Program(t, "versitygw"), "--port="+address,
		"--access="+access, "--secret="+secret, "--region=here", "--quiet", "posix", "--sidecar="+t.TempDir(), dir)...), dir}
}

// config returns the configuration of a store in the bucket, with its own folder of credentials.
func (s *s3) config(password string) store.Config {
	return store.Config{Provider: store.S3, Container: bucket, Prefix: prefix, Credentials: credentials(s.t, map[string]string{
		"accessKeyID": access, "secretAccessKey": password, "region": "here", "endpoint": "http://" + s.address, "s3ForcePathStyle": "true",
	})}
}

func (s *s3) store() *store.Store { return openStore(s.t, s.config(secret)) }

// startGCS starts a Google Cloud Storage server and returns a store in its bucket.
func startGCS(t testing.TB) *store.Store {
	dir, address := t.TempDir(), machine.FreeAddress(t)
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, address, machine.Program(t, "fake-gcs-server"), "-scheme=http", "-host="+host, "-port="+port, "-public-host="+address,
		"-external-url=http://"+address, "-backend=filesystem", "-filesystem-root="+dir, "-log-level=error")
	return openStore(t, store.Config{Provider: store.GCS, Container: bucket, Prefix: prefix, Credentials: credentials(t, map[string]string{
		"emulatorEnabled": "true", "storageAPIEndpoint": "http://" + address + "/storage/v1/",
	})})
}

// azuriteKey is the published key of Azurite's account.
const azuriteKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

// startABS starts Azurite, if installed (npm install -g azurite), and returns a store in its container.
func startABS(t testing.TB) *store.Store {
	azurite, err := exec.LookPath("azurite-blob")
	if err != nil {
		t.Skipf("Azurite is not installed: %v", err)
	}
	address, account := machine.FreeAddress(t), "devstoreaccount1"
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, address, azurite, "--blobHost", host, "--blobPort", port, "--location", t.TempDir(), "--silent", "--skipApiVersionCheck")
	key, err := container.NewSharedKeyCredential(account, azuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+account+"/"+bucket, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return openStore(t, store.Config{Provider: store.ABS, Container: bucket, Prefix: prefix, Credentials: credentials(t, map[string]string{
		"storageAccount": account, "storageKey": azuriteKey, "domain": address, "emulatorEnabled": "true",
	})})
}
