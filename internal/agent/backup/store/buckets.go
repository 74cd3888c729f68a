// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// The providers.
const (
	S3    = "S3"
	GCS   = "GCS"
	ABS   = "ABS"
	Local = "Local"
)

func (c Config) openBucket(ctx context.Context) (*blob.Bucket, error) {
	if c.Container == "" {
		return nil, errors.New("the container is missing")
	}
	if c.Provider == Local {
		return openLocal(c.Container)
	}
	keys := credentials{}
	if c.Credentials != "" {
		var err error
		if keys, err = readCredentials(c.Credentials); err != nil {
			return nil, err
		}
	}
	if c.Endpoint != "" {
		keys["endpoint"], keys["storageAPIEndpoint"], keys["domain"] = c.Endpoint, c.Endpoint, c.Endpoint
	}
	switch c.Provider {
	case S3:
		return openS3(ctx, c.Container, c.Credentials, keys)
	case GCS:
		return openGCS(ctx, c.Container, c.Credentials, keys)
	case ABS:
		return openABS(ctx, c.Container, keys)
	default:
		return nil, fmt.Errorf("provider %q is not supported; use S3, GCS, ABS or Local", c.Provider)
	}
}

func openLocal(folder string) (*blob.Bucket, error) {
	// Unfinished files are written beside the finished ones: a rename works only within a filesystem.
	return fileblob.OpenBucket(folder, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite, DirFileMode: 0o750})
}

func openS3(ctx context.Context, bucket, folder string, keys credentials) (*blob.Bucket, error) {
	if keys["sseCustomerKey"] != "" {
		return nil, errors.New("key sseCustomerKey of the credentials is not supported")
	}
	if err := keys.fromAlibaba(); err != nil {
		return nil, err
	}
	if keys["endpoint"] != "" && keys["region"] == "" {
		// Services other than AWS have one region, whose name only matters for signatures.
		keys["region"] = "us-east-1"
	}
	transport, err := s3Transport(keys)
	if err != nil {
		return nil, err
	}
	options := s3.Options{HTTPClient: transport, UsePathStyle: keys.is("s3ForcePathStyle"), Region: keys["region"]}
	if err := s3Identity(ctx, &options, folder, keys); err != nil {
		return nil, err
	}
	if endpoint := keys["endpoint"]; endpoint != "" {
		options.BaseEndpoint = aws.String(withScheme(endpoint, keys.is("disableSSL")))
	}
	if keys["requestChecksumCalculation"] == "when_required" {
		options.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		options.APIOptions = append(options.APIOptions, askForNoChecksum)
	}
	if keys["responseChecksumValidation"] == "when_required" {
		options.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	return s3blob.OpenBucket(ctx, s3.New(options), bucket, nil)
}

// askForNoChecksum takes back that an upload asks for a checksum: the SDK's transfer manager always asks for one, whatever is configured.
func askForNoChecksum(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("AskForNoChecksum", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		switch p := in.Parameters.(type) {
		case *s3.PutObjectInput:
			p.ChecksumAlgorithm = ""
		case *s3.CreateMultipartUploadInput:
			p.ChecksumAlgorithm = ""
		case *s3.UploadPartInput:
			p.ChecksumAlgorithm = ""
		}
		return next.HandleInitialize(ctx, in)
	}), middleware.Before)
}

// s3Identity chooses the credentials: the identity that the cloud gives the process if there is no Secret, a role with a token
// that is read again whenever it is needed, or a static key.
func s3Identity(ctx context.Context, options *s3.Options, folder string, keys credentials) error {
	switch {
	case folder == "":
		config, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithHTTPClient(options.HTTPClient))
		if err != nil {
			return fmt.Errorf("finding the identity of the pod: %w", err)
		}
		options.Credentials, options.Region = config.Credentials, cmp.Or(options.Region, config.Region)
		if options.Region == "" {
			return errors.New("there is neither a Secret nor AWS_REGION")
		}
	case keys["roleARN"] != "":
		if err := keys.need("roleARN", "token", "region"); err != nil {
			return err
		}
		client := sts.New(sts.Options{Region: keys["region"], HTTPClient: options.HTTPClient})
		token := stscreds.IdentityTokenFile(filepath.Join(folder, "token"))
		options.Credentials = aws.NewCredentialsCache(stscreds.NewWebIdentityRoleProvider(client, keys["roleARN"], token))
	default:
		if err := keys.need("accessKeyID", "secretAccessKey", "region"); err != nil {
			return err
		}
		options.Credentials = awscredentials.NewStaticCredentialsProvider(keys["accessKeyID"], keys["secretAccessKey"], "")
	}
	return nil
}

// s3Transport trusts the CA in the credentials, in addition to those of the system.
func s3Transport(keys credentials) (*awshttp.BuildableClient, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: keys.is("insecureSkipVerify")}
	if pem := keys["trustedCaCert"]; pem != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(pem)) {
			return nil, errors.New("trustedCaCert of the credentials is not a certificate")
		}
		config.RootCAs = pool
	}
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig = config }), nil
}

func openGCS(ctx context.Context, bucket, folder string, keys credentials) (*blob.Bucket, error) {
	options := &gcsblob.Options{}
	if endpoint := keys["storageAPIEndpoint"]; endpoint != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(endpoint))
	}
	if keys.is("emulatorEnabled") {
		return gcsblob.OpenBucket(ctx, gcp.NewAnonymousHTTPClient(gcp.DefaultTransport()), bucket, options)
	}
	account, err := gcsIdentity(ctx, folder, keys)
	if err != nil {
		return nil, err
	}
	client, err := gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.CredentialsTokenSource(account))
	if err != nil {
		return nil, fmt.Errorf("making a client of Google Cloud Storage: %w", err)
	}
	return gcsblob.OpenBucket(ctx, client, bucket, options)
}

// gcsScope is what the credentials are for.
const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// gcsIdentity returns the credentials: the identity that the cloud gives the process if there is no Secret, a workload identity
// with a token beside it, or the key of a service account.
func gcsIdentity(ctx context.Context, folder string, keys credentials) (*google.Credentials, error) {
	if folder == "" {
		account, err := google.FindDefaultCredentials(ctx, gcsScope)
		if err != nil {
			return nil, fmt.Errorf("finding the identity of the pod: %w", err)
		}
		return account, nil
	}
	if err := keys.need("serviceaccount.json"); err != nil {
		return nil, err
	}
	data, kind := []byte(keys["serviceaccount.json"]), google.ServiceAccount
	external, err := externalAccount(data, filepath.Join(folder, "token"))
	if err != nil {
		return nil, err
	}
	if external != nil {
		if err := keys.need("token"); err != nil {
			return nil, err
		}
		data, kind = external, google.ExternalAccount
	}
	account, err := google.CredentialsFromJSONWithType(ctx, data, kind, gcsScope)
	if err != nil {
		return nil, errors.New("serviceaccount.json of the credentials is neither the key of a service account nor a workload identity")
	}
	return account, nil
}

// impersonation is the only service that a workload identity may ask for the token of a service account.
var impersonation = regexp.MustCompile(`^https://iamcredentials\.googleapis\.com/v1/projects/-/serviceAccounts/[^/?#]+:generateAccessToken$`)

// externalAccount returns the configuration of a workload identity that reads its token from a file; nil if data is none. It
// uses no other file, URL or program that the Secret names: the author of a Secret must not make the agent read files or send
// requests of their choice.
func externalAccount(data []byte, token string) ([]byte, error) {
	var from struct {
		Type             string `json:"type"`
		Audience         string `json:"audience"`
		SubjectTokenType string `json:"subject_token_type"`
		TokenURL         string `json:"token_url"`
		ImpersonationURL string `json:"service_account_impersonation_url"`
		UniverseDomain   string `json:"universe_domain"`
	}
	if json.Unmarshal(data, &from) != nil || from.Type != string(google.ExternalAccount) {
		return nil, nil
	}
	switch {
	case from.TokenURL != "https://sts.googleapis.com/v1/token":
		return nil, errors.New("token_url of the workload identity must be https://sts.googleapis.com/v1/token")
	case from.SubjectTokenType != "urn:ietf:params:oauth:token-type:jwt":
		return nil, errors.New("subject_token_type of the workload identity must be urn:ietf:params:oauth:token-type:jwt")
	case from.ImpersonationURL != "" && !impersonation.MatchString(from.ImpersonationURL):
		return nil, errors.New("service_account_impersonation_url of the workload identity is not one of iamcredentials.googleapis.com")
	case from.UniverseDomain != "" && from.UniverseDomain != "googleapis.com":
		return nil, errors.New("universe_domain of the workload identity must be googleapis.com")
	}
	to := map[string]any{
		"type": from.Type, "audience": from.Audience, "subject_token_type": from.SubjectTokenType, "token_url": from.TokenURL,
		"credential_source": map[string]any{"file": token, "format": map[string]any{"type": "text"}},
	}
	if from.ImpersonationURL != "" {
		to["service_account_impersonation_url"] = from.ImpersonationURL
	}
	return json.Marshal(to)
}

func openABS(ctx context.Context, name string, keys credentials) (*blob.Bucket, error) {
	if err := keys.need("storageAccount", "storageKey"); err != nil {
		return nil, err
	}
	account := keys["storageAccount"]
	// The SDK's error would quote the key.
	shared, err := container.NewSharedKeyCredential(account, keys["storageKey"])
	if err != nil {
		return nil, errors.New("storageKey of the credentials is not a key of Azure")
	}
	at := url.URL{Scheme: "https", Host: account + "." + cmp.Or(keys["domain"], "blob.core.windows.net"), Path: name}
	if override, err := url.Parse(keys["domain"]); err == nil && override.Host != "" && !keys.is("emulatorEnabled") {
		// An endpoint that overrides the domain is a whole URL.
		at = *override.JoinPath(name)
	}
	if keys.is("emulatorEnabled") {
		at = url.URL{Scheme: "http", Host: keys["domain"], Path: account + "/" + name}
	}
	client, err := container.NewClientWithSharedKeyCredential(at.String(), shared, nil)
	if err != nil {
		return nil, fmt.Errorf("making a client of Azure: %w", err)
	}
	return azureblob.OpenBucket(ctx, client, nil)
}
