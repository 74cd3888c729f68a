// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// credentials are the files of a mounted Secret. Their names are those of Gardener's backup secrets:
//
//	S3   accessKeyID, secretAccessKey, region, or roleARN, token, region; endpoint, disableSSL, s3ForcePathStyle,
//	     trustedCaCert, insecureSkipVerify, requestChecksumCalculation and responseChecksumValidation (when_required);
//	     of Alibaba Cloud accessKeyID, accessKeySecret, storageEndpoint
//	GCS  serviceaccount.json, and token if that is a workload identity; storageAPIEndpoint, emulatorEnabled
//	ABS  storageAccount, storageKey; domain, emulatorEnabled
//
// Errors name a key, never a value.
type credentials map[string]string

func readCredentials(folder string) (credentials, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	keys := credentials{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // the kubelet's links for atomic updates
		}
		value, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
		keys[entry.Name()] = strings.TrimSpace(string(value))
	}
	return keys, nil
}

// need returns an error if values are missing.
func (c credentials) need(names ...string) error {
	var missing []string
	for _, name := range names {
		if c[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the credentials lack %s", strings.Join(missing, ", "))
	}
	return nil
}

// fromAlibaba translates the keys of Alibaba Cloud into those of S3. Its service does not know the checksums that the SDK adds.
func (c credentials) fromAlibaba() error {
	if c["accessKeySecret"] == "" || c["secretAccessKey"] != "" {
		return nil
	}
	if c["endpoint"] == "" {
		if err := c.need("storageEndpoint"); err != nil {
			return err
		}
		c["endpoint"] = c["storageEndpoint"]
	}
	c["secretAccessKey"] = c["accessKeySecret"]
	for _, name := range []string{"requestChecksumCalculation", "responseChecksumValidation"} {
		c[name] = cmp.Or(c[name], "when_required")
	}
	return nil
}

func (c credentials) is(name string) bool {
	value, err := strconv.ParseBool(c[name])
	return err == nil && value
}

// withScheme adds https:// to an endpoint that is only a host, or http:// if it is plain.
func withScheme(endpoint string, plain bool) string {
	if u, err := url.Parse(endpoint); err == nil && u.Scheme != "" && u.Host != "" {
		return endpoint
	}
	if plain {
		return "http://" + endpoint
	}
	return "https://" + endpoint
}

// state identifies the content of a folder of credentials. The kubelet replaces all files at once, by a link to a new folder.
func state(folder string) (string, error) {
	if folder == "" {
		return "", nil
	}
	target, err := os.Readlink(filepath.Join(folder, "..data"))
	if !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	info, err := os.Stat(folder)
	if err != nil {
		return "", err
	}
	return info.ModTime().String(), nil
}
