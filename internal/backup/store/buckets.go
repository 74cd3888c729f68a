// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
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
	keys, err := readCredentials(c.Credentials)
	if err != nil {
		return nil, err
	}
	switch c.Provider {
	case S3:
		return openS3(ctx, c.Container, keys)
	case GCS:
		return openGCS(ctx, c.Container, keys)
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

func openS3(ctx context.Context, bucket string, keys credentials) (*blob.Bucket, error) {
	for _, unsupported := range []string{"sseCustomerKey", "roleARN", "token"} {
		if keys[unsupported] != "" {
			return nil, fmt.Errorf("key %s of the credentials is not supported", unsupported)
		}
	}
	values, err := keys.need("accessKeyID", "secretAccessKey", "region")
	if err != nil {
		return nil, err
	}
	transport, err := s3Transport(keys)
	if err != nil {
		return nil, err
	}
	options := s3.Options{
		Region:       values["region"],
		Credentials:  awscredentials.NewStaticCredentialsProvider(values["accessKeyID"], values["secretAccessKey"], ""),
		HTTPClient:   transport,
		UsePathStyle: keys.is("s3ForcePathStyle"),
	}
	if endpoint := keys["endpoint"]; endpoint != "" {
		options.BaseEndpoint = aws.String(withScheme(endpoint))
	}
	blobOptions := &s3blob.Options{}
	if keys["requestChecksumCalculation"] == "when_required" {
		options.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		blobOptions.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	}
	if keys["responseChecksumValidation"] == "when_required" {
		options.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	return s3blob.OpenBucket(ctx, s3.New(options), bucket, blobOptions)
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

func openGCS(ctx context.Context, bucket string, keys credentials) (*blob.Bucket, error) {
	options := &gcsblob.Options{}
	if endpoint := keys["storageAPIEndpoint"]; endpoint != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(endpoint))
	}
	if keys.is("emulatorEnabled") {
		return gcsblob.OpenBucket(ctx, gcp.NewAnonymousHTTPClient(gcp.DefaultTransport()), bucket, options)
	}
	values, err := keys.need("serviceaccount.json")
	if err != nil {
		return nil, err
	}
	account, err := google.CredentialsFromJSONWithType(ctx, []byte(values["serviceaccount.json"]), google.ServiceAccount, "https://www.googleapis.com/auth/devstorage.read_write")
	if err != nil {
		return nil, errors.New("serviceaccount.json of the credentials is not the key of a service account")
	}
	client, err := gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.CredentialsTokenSource(account))
	if err != nil {
		return nil, fmt.Errorf("making a client of Google Cloud Storage: %w", err)
	}
	return gcsblob.OpenBucket(ctx, client, bucket, options)
}

func openABS(ctx context.Context, name string, keys credentials) (*blob.Bucket, error) {
	values, err := keys.need("storageAccount", "storageKey")
	if err != nil {
		return nil, err
	}
	// The SDK's error would quote the key.
	shared, err := container.NewSharedKeyCredential(values["storageAccount"], values["storageKey"])
	if err != nil {
		return nil, errors.New("storageKey of the credentials is not a key of Azure")
	}
	at := url.URL{Scheme: "https", Host: values["storageAccount"] + "." + keys.or("domain", "blob.core.windows.net"), Path: name}
	if keys.is("emulatorEnabled") {
		at = url.URL{Scheme: "http", Host: keys["domain"], Path: values["storageAccount"] + "/" + name}
	}
	client, err := container.NewClientWithSharedKeyCredential(at.String(), shared, nil)
	if err != nil {
		return nil, fmt.Errorf("making a client of Azure: %w", err)
	}
	return azureblob.OpenBucket(ctx, client, nil)
}
