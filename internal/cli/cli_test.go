// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

// A port-forward that ends after a good answer has client-go log an error. The user does not see it.
func TestLibrariesPrintNothing(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	var out bytes.Buffer
	k := kube.New(genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out})
	if code := Run(t.Context(), k, nil); code != 0 {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	runtime.HandleErrorWithContext(t.Context(), errors.New("error copying from local connection to remote stream"), "Unhandled Error")
	klog.Error("an error")
	klog.Flush()
	if printed, err := os.ReadFile(file.Name()); err != nil || len(printed) > 0 {
		t.Errorf("%v, %q", err, printed)
	}
}
