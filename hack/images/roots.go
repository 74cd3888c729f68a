// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"
)

// rootsPackage is Debian's package ca-certificates, whose content is Mozilla's list. It is pinned by its checksum, so that
// every machine builds the same image. To update: apt-get download --print-uris ca-certificates
var rootsPackage = download{
	sha256: "b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b",
	urls: []string{
		"http://deb.debian.org/debian-security/pool/updates/main/c/ca-certificates/ca-certificates_20250419~deb12u2_all.deb",
		// Debian's servers have only current versions; this one keeps all.
		"https://snapshot.debian.org/file/b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b",
	},
}

// baseTag is the tag of the base image, which the images name in an annotation.
const baseTag = "ca-certificates-20250419-deb12u2"

// maxDownload bounds a download and what it unpacks to, in bytes.
const maxDownload = 64 << 20

// download is a file that is known by its checksum.
type download struct {
	sha256 string
	urls   []string
}

// get returns the file, from the cache if it is there.
func (d download) get(ctx context.Context, cache string) ([]byte, error) {
	cached := filepath.Join(cache, d.sha256)
	if data, err := os.ReadFile(cached); err == nil && checksum(data) == d.sha256 {
		return data, nil
	}
	var failed []error
	for _, url := range d.urls {
		data, err := fetch(ctx, url)
		if err == nil && checksum(data) != d.sha256 {
			err = fmt.Errorf("%s has checksum %s instead of %s", url, checksum(data), d.sha256)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if err := os.MkdirAll(cache, 0o755); err != nil {
			return nil, fmt.Errorf("caching a download: %w", err)
		}
		return data, os.WriteFile(cached, data, 0o644)
	}
	return nil, fmt.Errorf("downloading ca-certificates (if the version is gone, update hack/images/roots.go): %w", errors.Join(failed...))
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxDownload))
}

// certificates returns the roots of trust in a Debian package, one after the other, as update-ca-certificates writes them.
func certificates(deb []byte) ([]byte, error) {
	compressed, err := member(deb, "data.tar.xz")
	if err != nil {
		return nil, err
	}
	unpacked, err := xz.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("unpacking ca-certificates: %w", err)
	}
	found := map[string][]byte{}
	for archive := tar.NewReader(io.LimitReader(unpacked, maxDownload)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading ca-certificates: %w", err)
		}
		if header.Typeflag != tar.TypeReg || path.Ext(header.Name) != ".crt" {
			continue
		}
		if found[header.Name], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("reading %s of ca-certificates: %w", header.Name, err)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("ca-certificates contains no certificate")
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	var all bytes.Buffer
	for _, name := range names {
		all.Write(bytes.TrimSpace(found[name]))
		all.WriteByte('\n')
	}
	return all.Bytes(), nil
}

// member returns a member of an ar archive, which is what a Debian package is.
func member(archive []byte, name string) ([]byte, error) {
	const magic, headerSize = "!<arch>\n", 60
	rest, ok := bytes.CutPrefix(archive, []byte(magic))
	for ok && len(rest) >= headerSize {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size < 0 || size > len(rest)-headerSize {
			break
		}
		if strings.TrimRight(string(rest[:16]), " /") == name {
			return rest[headerSize : headerSize+size], nil
		}
		rest = rest[min(len(rest), headerSize+size+size%2):]
	}
	return nil, fmt.Errorf("the package has no member %s", name)
}
