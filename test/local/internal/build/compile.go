// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
)

// compile runs the go command and moves each result to its place in one step, so that no reader sees half a binary.
func (b *Builder) compile(ctx context.Context, batch batch) error {
	return b.Console.Step(batch.label(), func(note func(string)) (string, error) {
		note("building")
		fresh, err := os.MkdirTemp(b.stampDir(), "new-")
		if err != nil {
			return "", fmt.Errorf("creating folder for binaries: %w", err)
		}
		defer func() { _ = os.RemoveAll(fresh) }()
		// -v names each package as it is compiled: that is the progress.
		cmd := b.goCommand(ctx, batch, "build", "-v", "-trimpath", withoutDebugInformation, withoutInlining, "-ldflags", batch.flags, "-o", fresh+string(filepath.Separator))
		if err := runCompiler(cmd, note); err != nil {
			return "", err
		}
		for i, binary := range batch.binaries {
			if err := b.install(filepath.Join(fresh, binary.executable()), binary, batch.stamps[i]); err != nil {
				return "", err
			}
		}
		return "built", nil
	})
}

// goCommand returns a go command for the programs of a batch.
func (b *Builder) goCommand(ctx context.Context, batch batch, args ...string) *exec.Cmd {
	for _, binary := range batch.binaries {
		args = append(args, binary.Package)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Layout.Root, batch.module)
	// A workspace of the user would unpin the versions.
	cmd.Env = append(append(noGarbageCollection(), os.Environ()...), "CGO_ENABLED=0", "GOWORK=off")
	if batch.inImage {
		cmd.Env = append(cmd.Env, "GOOS=linux") // also on a Mac, for kind
	}
	return cmd
}

// fetch downloads what later batches need. A failure is reported when they are compiled.
func (b *Builder) fetch(ctx context.Context, batches []batch) {
	for _, batch := range batches {
		_ = b.goCommand(ctx, batch, "list", "-deps").Run()
	}
}

// withoutDebugInformation saves the compiler a seventh of its time: the linker drops that information anyway. The Makefile
// sets the same flag, so that packages are compiled once for both.
const withoutDebugInformation = "-gcflags=all=-dwarf=false"

// withoutInlining saves the compiler up to half of its time for what only the programs of Kubernetes contain, of which there
// is most. Everything that the operator shares with them, such as client-go, is compiled as for the operator.
const withoutInlining = "-gcflags=k8s.io/kubernetes/...=-dwarf=false -l"

// noGarbageCollection makes compiler and linker, which run for seconds, collect garbage only when memory gets short:
// otherwise it takes a quarter of their time.
func noGarbageCollection() []string { return []string{"GOGC=off", "GOMEMLIMIT=2GiB"} }

// install moves a binary to its place, and then writes its stamp, if it has one.
func (b *Builder) install(built string, binary Binary, stamp string) error {
	path := b.Layout.Binary(binary.Name)
	for _, file := range []string{path, b.stampPath(binary)} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("creating folder for a binary: %w", err)
		}
	}
	// The file may have other names too, of other programs: the new name is a link to it.
	link := built + "-" + filepath.Base(path)
	if err := os.Link(built, link); err != nil {
		return fmt.Errorf("installing the binary: %w", err)
	}
	if err := os.Rename(link, path); err != nil {
		return fmt.Errorf("installing the binary: %w", err)
	}
	if stamp == "" {
		return nil
	}
	if err := os.WriteFile(b.stampPath(binary), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("writing stamp: %w", err)
	}
	return nil
}

// runCompiler runs go build -v and notes how many packages it has compiled. The rest of its output goes into the error.
func runCompiler(cmd *exec.Cmd, note func(string)) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("reading the output of the compiler: %w", err)
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
		case module.CheckImportPath(line) == nil:
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
