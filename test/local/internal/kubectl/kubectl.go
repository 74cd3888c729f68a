// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package kubectl calls kubectl with one explicit kubeconfig, so that the user's is never used by accident. It imports
// the standard library only.
package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Kubectl is a kubectl for one cluster.
type Kubectl struct {
	Path       string // of the program
	Kubeconfig string // file; empty for the user's, with kubectl's rules
	Context    string // in that file; empty for its current one
	// Cache is the folder in which kubectl caches what an API server serves. A new cluster at the same address serves
	// something else, so the cache is removed with the cluster. Empty for the user's.
	Cache string
}

// Run runs kubectl and returns what it prints. Its error is an *Error.
func (k Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	return k.run(ctx, nil, args...)
}

func (k Kubectl) run(ctx context.Context, input []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.Path, append(k.flags(), args...)...)
	cmd.Env = os.Environ()
	if k.Kubeconfig != "" {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(variable string) bool { return strings.HasPrefix(variable, "KUBECONFIG=") })
	}
	if k.Cache != "" {
		cmd.Env = append(cmd.Env, "KUBECACHEDIR="+k.Cache)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", &Error{Args: args, Said: strings.TrimSpace(stderr.String()), Err: err}
	}
	return stdout.String(), nil
}

// Error is why a call of kubectl failed.
type Error struct {
	Args []string
	Said string // on its standard error
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("kubectl %s: %v: %s", strings.Join(e.Args, " "), e.Err, e.Said)
}

func (e *Error) Unwrap() error { return e.Err }

// onlyUnknownKinds reports whether kubectl complained only about kinds that the API server does not know.
func (e *Error) onlyUnknownKinds() bool {
	for line := range strings.Lines(e.Said) {
		if !strings.Contains(line, "no matches for kind") && !strings.Contains(line, "ensure CRDs are installed first") {
			return false
		}
	}
	return e.Said != ""
}

func (k Kubectl) flags() []string {
	var flags []string
	if k.Kubeconfig != "" {
		flags = append(flags, "--kubeconfig="+k.Kubeconfig)
	}
	if k.Context != "" {
		flags = append(flags, "--context="+k.Context)
	}
	return flags
}

// ApplyFile applies the objects in a file.
func (k Kubectl) ApplyFile(ctx context.Context, path string) error {
	_, err := k.Run(ctx, "apply", "--server-side", "--force-conflicts", "--filename="+path)
	return err
}

// Apply applies objects.
func (k Kubectl) Apply(ctx context.Context, manifest string) error {
	_, err := k.run(ctx, []byte(manifest), "apply", "--server-side", "--force-conflicts", "--filename=-")
	return err
}

// Delete deletes objects and waits until they are gone. It is no error if they do not exist, or their kind is unknown.
func (k Kubectl) Delete(ctx context.Context, manifest string) error {
	_, err := k.run(ctx, []byte(manifest), "delete", "--ignore-not-found", "--wait", "--timeout=3m", "--filename=-")
	var failed *Error
	if errors.As(err, &failed) && failed.onlyUnknownKinds() {
		return nil
	}
	return err
}

// WaitReady waits until an object exists and its condition Ready is True.
func (k Kubectl) WaitReady(ctx context.Context, object, namespace string, timeout time.Duration) error {
	if err := k.Wait(ctx, "create", object, namespace, timeout); err != nil {
		return err
	}
	return k.Wait(ctx, "condition=Ready", object, namespace, timeout)
}

// Wait waits for a condition of an object, as kubectl wait --for takes it. The namespace may be empty.
func (k Kubectl) Wait(ctx context.Context, condition, object, namespace string, timeout time.Duration) error {
	args := []string{"wait", "--for=" + condition, object, "--timeout=" + timeout.String()}
	if namespace != "" {
		args = append(args, "--namespace="+namespace)
	}
	if _, err := k.Run(ctx, args...); err != nil {
		return fmt.Errorf("waiting for %s (%s): %w", object, condition, err)
	}
	return nil
}
