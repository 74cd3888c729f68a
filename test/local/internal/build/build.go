// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/progress"
)

// Builder builds into the .local/bin of one checkout.
type Builder struct {
	Layout  layout.Layout
	Printer *progress.Printer
	// Assets is a folder of ready-made binaries (KUBEBUILDER_ASSETS); what is
	// in it is not built. Empty for none.
	Assets string
}

// Build makes sure that the named binaries exist and are current. A second
// Build of the same checkout waits for the first.
func (b *Builder) Build(ctx context.Context, names ...string) error {
	binaries, err := Select(names)
	if err != nil {
		return err
	}
	stamps := b.stampDir()
	if err := os.MkdirAll(stamps, 0o755); err != nil {
		return fmt.Errorf("creating folder for binaries: %w", err)
	}
	unlock, err := lock(filepath.Join(stamps, "lock"))
	if err != nil {
		return fmt.Errorf("waiting for another build: %w", err)
	}
	defer unlock()
	for _, binary := range binaries {
		if err := b.ensure(ctx, binary); err != nil {
			return fmt.Errorf("building %s: %w", binary.Name, err)
		}
	}
	return nil
}

func (b *Builder) stampDir() string { return filepath.Join(b.Layout.Bin(), ".stamps") }

// ensure builds one binary unless it is provided or current.
func (b *Builder) ensure(ctx context.Context, binary Binary) error {
	if b.provided(binary.Name) {
		b.Printer.Line("%-24s taken from KUBEBUILDER_ASSETS=%s", binary.Name, b.Assets)
		return nil
	}
	flags, err := b.linkerFlags(binary)
	if err != nil {
		return err
	}
	if !binary.Pinned {
		return b.compile(ctx, binary, flags)
	}
	want, err := stamp(b.Layout.Root, binary, flags)
	if err != nil {
		return err
	}
	stampPath := filepath.Join(b.stampDir(), binary.Name)
	for _, path := range []string{stampPath, b.Layout.Binary(binary.Name)} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("creating folder for a binary: %w", err)
		}
	}
	if ok, err := current(b.Layout.Binary(binary.Name), stampPath, want); ok || err != nil {
		return err
	}
	if err := b.compile(ctx, binary, flags); err != nil {
		return err
	}
	if err := os.WriteFile(stampPath, []byte(want), 0o644); err != nil {
		return fmt.Errorf("writing stamp: %w", err)
	}
	return nil
}

// provided tells whether KUBEBUILDER_ASSETS has the binary, in a folder that is
// not the very one that this program fills.
func (b *Builder) provided(name string) bool {
	if b.Assets == "" {
		return false
	}
	assets, errAssets := os.Stat(b.Assets)
	own, errOwn := os.Stat(b.Layout.Bin())
	if errAssets != nil || (errOwn == nil && os.SameFile(assets, own)) {
		return false
	}
	info, err := os.Stat(filepath.Join(b.Assets, name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func (b *Builder) linkerFlags(binary Binary) (string, error) {
	flags := "-s -w"
	if binary.Flags == nil {
		return flags, nil
	}
	goMod, err := os.ReadFile(filepath.Join(b.Layout.Root, binary.Module, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the pinned version: %w", err)
	}
	more, err := binary.Flags(string(goMod))
	if err != nil {
		return "", fmt.Errorf("reading the pinned version: %w", err)
	}
	return flags + " " + more, nil
}

// compile runs the go command and puts the result in place in one step, so that
// nobody ever sees half a binary.
func (b *Builder) compile(ctx context.Context, binary Binary, flags string) error {
	return b.Printer.Step(binary.Name, func(note func(string)) (string, error) {
		note("building")
		path := b.Layout.Binary(binary.Name)
		temporary := filepath.Join(b.stampDir(), binary.Name+".new")
		// -v names each package as it is compiled: that is the progress.
		cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-ldflags", flags, "-o", temporary, binary.Package)
		cmd.Dir = filepath.Join(b.Layout.Root, binary.Module)
		// A workspace of the user would unpin the versions.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if binary.InImage {
			cmd.Env = append(cmd.Env, "GOOS=linux") // also on a Mac, for kind
		}
		if err := runCompiler(cmd, note); err != nil {
			return "", err
		}
		if err := os.Rename(temporary, path); err != nil {
			return "", fmt.Errorf("putting the binary in place: %w", err)
		}
		return "built", nil
	})
}

// runCompiler runs go build -v, notes how many packages it has compiled, and
// keeps what else it says for the error.
func runCompiler(cmd *exec.Cmd, note func(string)) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("reading what the compiler says: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the compiler: %w", err)
	}
	compiled := 0
	var said []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case isImportPath(line):
			compiled++
			note(fmt.Sprintf("building, %d packages compiled", compiled))
		case strings.HasPrefix(line, "go: downloading "):
			note(strings.TrimPrefix(line, "go: "))
		default:
			said = append(said, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s in %s: %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err, strings.Join(said, "\n"))
	}
	return nil
}

// isImportPath tells the name of a package from a message of the compiler.
func isImportPath(line string) bool {
	return line != "" && !strings.ContainsAny(line, " :\t#")
}

// lock takes an exclusive lock on a file; the kernel releases it also when this
// process dies.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
