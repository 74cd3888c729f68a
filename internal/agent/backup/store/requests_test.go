// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// provider imitates an empty container, and keeps the last request for it.
type provider struct {
	server *httptest.Server
	mu     sync.Mutex
	last   *http.Request
	// sums are the headers with checksums of all requests.
	sums []string
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r
	for name := range r.Header {
		if strings.Contains(name, "Checksum") || name == "X-Amz-Trailer" {
			p.sums = append(p.sums, name)
		}
	}
	switch {
	case r.URL.Query().Has("uploads"):
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPost:
		_, _ = io.WriteString(w, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
	case r.Method == http.MethodPut:
		w.Header().Set("ETag", `"1"`)
	case strings.Contains(r.URL.Path, "/storage/v1/"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	case r.URL.Query().Get("comp") == "list":
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, "<EnumerationResults><Blobs></Blobs></EnumerationResults>")
	default:
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}
}

func newProvider(t *testing.T, start func(http.Handler) *httptest.Server) *provider {
	p := &provider{}
	p.server = start(p)
	t.Cleanup(p.server.Close)
	return p
}

// Requests go to where the Secret says, or the configuration in its place, with the credentials of the Secret.
func TestWhereRequestsGo(t *testing.T) {
	key := map[string]string{"accessKeyID": "id", "secretAccessKey": "secret", "region": "eu", "s3ForcePathStyle": "true"}
	azure := map[string]string{"storageAccount": "account", "storageKey": "c2VjcmV0"}
	with := func(keys map[string]string, more ...string) map[string]string {
		keys = maps.Clone(keys)
		for i := 0; i < len(more); i += 2 {
			keys[more[i]] = more[i+1]
		}
		return keys
	}
	for name, c := range map[string]struct {
		provider string
		// keys of the Secret, and endpoint of the configuration, in which HOST is where the provider listens.
		keys     map[string]string
		endpoint string
		// path of the request, and what its credentials begin with.
		path, authorization string
	}{
		"S3":                          {S3, with(key, "endpoint", "http://HOST"), "", "/bucket", "AWS4-HMAC-SHA256 Credential=id/*/eu/s3/"},
		"S3, without scheme":          {S3, with(key, "endpoint", "HOST", "disableSSL", "true"), "", "/bucket", "AWS4-HMAC-SHA256 Credential=id/*/eu/s3/"},
		"S3, without region":          {S3, with(key, "endpoint", "http://HOST", "region", ""), "", "/bucket", "AWS4-HMAC-SHA256 Credential=id/*/us-east-1/s3/"},
		"S3, by the configuration":    {S3, with(key, "endpoint", "http://127.0.0.1:1"), "http://HOST", "/bucket", "AWS4-HMAC-SHA256 Credential=id/*/eu/s3/"},
		"Alibaba's names":             {S3, map[string]string{"accessKeyID": "id", "accessKeySecret": "secret", "storageEndpoint": "http://HOST", "s3ForcePathStyle": "true"}, "", "/bucket", "AWS4-HMAC-SHA256 Credential=id/*/us-east-1/s3/"},
		"Azure":                       {ABS, with(azure, "domain", "http://HOST"), "", "/bucket", "SharedKey account:"},
		"Azure, by the configuration": {ABS, azure, "http://HOST", "/bucket", "SharedKey account:"},
		"Azure, emulated":             {ABS, with(azure, "domain", "HOST", "emulatorEnabled", "true"), "", "/account/bucket", "SharedKey account:"},
		"GCS, emulated":               {GCS, map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": "http://HOST/storage/v1/"}, "", "/storage/v1/b/bucket/o", ""},
		"GCS, by the configuration":   {GCS, map[string]string{"emulatorEnabled": "true"}, "http://HOST/storage/v1/", "/storage/v1/b/bucket/o", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), newProvider(t, httptest.NewServer)
			host := p.server.Listener.Addr().String()
			keys := map[string]string{}
			for name, value := range c.keys {
				keys[name] = strings.ReplaceAll(value, "HOST", host)
			}
			s, err := Open(t.Context(), Config{Provider: c.provider, Container: "bucket", Prefix: "a/b", Credentials: secret(t, keys), Endpoint: strings.ReplaceAll(c.endpoint, "HOST", host)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.List(t.Context())).To(BeEmpty())
			g.Expect(p.last.URL.Path).To(Equal(c.path))
			g.Expect(p.last.URL.Query().Get("prefix")).To(Equal("a/b/kept/"), "the last request lists the marks of what is kept")
			before, after, _ := strings.Cut(c.authorization, "*")
			g.Expect(p.last.Header.Get("Authorization")).To(And(HavePrefix(before), ContainSubstring(after)))
		})
	}
}

// Checksums that only AWS knows are not sent where the Secret says so, as that of Alibaba does.
func TestChecksums(t *testing.T) {
	for name, c := range map[string]struct {
		keys map[string]string
		sent bool
	}{
		"usually":         {map[string]string{"secretAccessKey": "s"}, true},
		"when required":   {map[string]string{"secretAccessKey": "s", "requestChecksumCalculation": "when_required", "responseChecksumValidation": "when_required"}, false},
		"at Alibaba":      {map[string]string{"accessKeySecret": "s", "storageEndpoint": "x"}, false},
		"Alibaba, forced": {map[string]string{"accessKeySecret": "s", "storageEndpoint": "x", "requestChecksumCalculation": "when_supported"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := NewWithT(t), newProvider(t, httptest.NewServer)
			keys := maps.Clone(c.keys)
			keys["accessKeyID"], keys["region"], keys["endpoint"], keys["s3ForcePathStyle"] = "id", "eu", p.server.URL, "true"
			s, err := Open(t.Context(), Config{Provider: S3, Container: "bucket", Prefix: "a/b", Credentials: secret(t, keys)})
			g.Expect(err).NotTo(HaveOccurred())
			for _, size := range []int{1, 2*partSize + 1} {
				p.sums = nil
				_, err = s.Write(t.Context(), full(1), func(w io.Writer) error { _, err := w.Write(make([]byte, size)); return err })
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(len(p.sums) > 0).To(Equal(c.sent), "%d bytes: %v", size, p.sums)
			}
		})
	}
}

// A store with a CA of its own is trusted if the Secret has that CA, or says that none matters.
func TestTheCAOfAStore(t *testing.T) {
	p := newProvider(t, httptest.NewTLSServer)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}))
	for name, c := range map[string]struct {
		key, value string
		trusted    bool
	}{
		"unknown": {"region", "eu", false}, "in the Secret": {"trustedCaCert", ca, true},
		"ignored": {"insecureSkipVerify", "true", true}, "not ignored": {"insecureSkipVerify", "false", false},
	} {
		g := NewWithT(t)
		keys := map[string]string{"accessKeyID": "id", "secretAccessKey": "s", "region": "eu", "endpoint": p.server.URL, "s3ForcePathStyle": "true"}
		keys[c.key] = c.value
		s, err := Open(t.Context(), Config{Provider: S3, Container: "bucket", Prefix: "a/b", Credentials: secret(t, keys)})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.List(t.Context())
		g.Expect(err == nil).To(Equal(c.trusted), "%s: %v", name, err)
	}
}
