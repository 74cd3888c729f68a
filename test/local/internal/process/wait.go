// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/poll"
)

// tailLines is how much of a log an error shows.
const tailLines = 15

// WaitReady waits until probe returns nil. It fails as soon as the process dies or the context ends, with the last lines
// of the log.
func (p Process) WaitReady(ctx context.Context, probe func(context.Context) error) error {
	var notReady error
	err := poll.Until(ctx, func() (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		notReady = probe(attempt)
		if notReady != nil && !p.Identity.Alive() {
			return false, errors.New("it died")
		}
		return notReady == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%w)%s", p.Name, err, notReady, Tail(p.Log))
	}
	return nil
}

// WaitGone waits until none of the processes is alive.
func WaitGone(ctx context.Context, identities ...Identity) error {
	return poll.Until(ctx, func() (bool, error) { return !slices.ContainsFunc(identities, Identity.Alive), nil })
}

// Tail formats the last lines of a log for the end of an error.
func Tail(path string) string {
	lines, err := lastLines(path, tailLines)
	if err != nil {
		return fmt.Sprintf("; its log %s cannot be read: %v", path, err)
	}
	if len(lines) == 0 {
		return fmt.Sprintf("; its log %s is empty", path)
	}
	return fmt.Sprintf("; the end of its log %s:\n    %s", path, strings.Join(lines, "\n    "))
}

func lastLines(path string, n int) ([]string, error) {
	const enough = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(max(0, size-enough), io.SeekStart); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return nil, nil
	}
	lines := strings.Split(string(content), "\n")
	return lines[max(0, len(lines)-n):], nil
}
