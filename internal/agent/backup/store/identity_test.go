// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// secret writes the files of a mounted Secret.
func secret(t *testing.T, keys map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, value := range keys {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const workloadIdentity = `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token",
"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.iam.gserviceaccount.com:generateAccessToken",
"credential_source":{"file":"/etc/shadow","executable":{"command":"/bin/sh"},"url":"http://169.254.169.254/"}}`

// A role with a token takes the place of a static key, for S3 and for Google Cloud Storage.
func TestIdentities(t *testing.T) {
	for name, tc := range map[string]struct {
		provider string
		keys     map[string]string
		err      string
	}{
		"S3, a key":                 {S3, map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "eu"}, ""},
		"S3, a role":                {S3, map[string]string{"roleARN": "arn:aws:iam::1:role/a", "token": "t", "region": "eu"}, ""},
		"S3, a role without token":  {S3, map[string]string{"roleARN": "arn:aws:iam::1:role/a", "region": "eu"}, "lack token"},
		"S3, a role without region": {S3, map[string]string{"roleARN": "arn:aws:iam::1:role/a", "token": "t"}, "lack region"},
		"S3-compatible, no region":  {S3, map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "endpoint": "s3.example.com"}, ""},
		"S3, neither":               {S3, map[string]string{"region": "eu"}, "lack accessKeyID, secretAccessKey"},
		"S3, a customer's key":      {S3, map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "eu", "sseCustomerKey": "x"}, "sseCustomerKey"},
		"GCS, a workload identity":  {GCS, map[string]string{"serviceaccount.json": workloadIdentity, "token": "t"}, ""},
		"GCS, without token":        {GCS, map[string]string{"serviceaccount.json": workloadIdentity}, "lack token"},
		"GCS, another token service": {GCS, map[string]string{"serviceaccount.json": strings.Replace(workloadIdentity, "https://sts.googleapis.com", "https://example.com", 1), "token": "t"},
			"token_url"},
		"GCS, another impersonation": {GCS, map[string]string{"serviceaccount.json": strings.Replace(workloadIdentity, "https://iamcredentials.googleapis.com", "https://example.com", 1), "token": "t"},
			"service_account_impersonation_url"},
		"GCS, nonsense": {GCS, map[string]string{"serviceaccount.json": "{}"}, "neither the key of a service account nor a workload identity"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Open(t.Context(), Config{Provider: tc.provider, Container: "bucket", Prefix: "a", Credentials: secret(t, tc.keys)})
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
		})
	}
}

// A workload identity reads its token from the Secret, and nothing else that its configuration names.
func TestAWorkloadIdentityReadsNothingElse(t *testing.T) {
	g := NewWithT(t)
	account, err := externalAccount([]byte(workloadIdentity), "/secret/token")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(account)).To(ContainSubstring(`"file":"/secret/token"`))
	g.Expect(string(account)).NotTo(Or(ContainSubstring("shadow"), ContainSubstring("executable"), ContainSubstring("169.254")))
}

// An endpoint of the configuration takes the place of the one in the Secret.
func TestEndpoints(t *testing.T) {
	g := NewWithT(t)
	for endpoint, want := range map[string]string{"s3.example.com": "https://s3.example.com", "http://s3.example.com": "http://s3.example.com"} {
		g.Expect(withScheme(endpoint, false)).To(Equal(want))
	}
	g.Expect(withScheme("s3.example.com", true)).To(Equal("http://s3.example.com"))
}
