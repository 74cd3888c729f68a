package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// poll is the period of all waiting in this package.
const poll = 20 * time.Millisecond

// tailLines is how much of a log an error shows.
const tailLines = 15

// WaitReady waits until probe returns nil. It fails as soon as the process dies
// or the context ends, with the last lines of the log.
func (p Process) WaitReady(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := probe(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !p.Identity.Alive() {
			return fmt.Errorf("%s died%s", p.Name, Tail(p.Log))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%w)%s", p.Name, context.Cause(ctx), err, Tail(p.Log))
		case <-ticker.C:
		}
	}
}

// Gone waits until none of the processes is alive, and tells whether that came
// true in time.
func Gone(timeout time.Duration, identities ...Identity) bool {
	deadline := time.Now().Add(timeout)
	for _, identity := range identities {
		for identity.Alive() {
			if time.Now().After(deadline) {
				return false
			}
			time.Sleep(poll)
		}
	}
	return true
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
	defer file.Close()
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
