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
	"slices"
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
	batches, err := b.plan(binaries)
	if err != nil {
		return err
	}
	for _, batch := range batches {
		if err := b.compile(ctx, batch); err != nil {
			return fmt.Errorf("building %s: %w", batch.label(), err)
		}
	}
	return nil
}

// batch is programs that one run of the go command compiles: it then links one while it compiles for another.
type batch struct {
	module, flags string
	inImage       bool
	binaries      []Binary
	// stamps are those that the binaries are to have; empty for those that have none.
	stamps []string
}

// label names a batch in the width of a column.
func (b batch) label() string {
	switch n := len(b.binaries); n {
	case 1:
		return b.binaries[0].Name
	case 2:
		return b.binaries[0].Name + ", " + b.binaries[1].Name
	default:
		return fmt.Sprintf("%s and %d more", b.binaries[0].Name, n-1)
	}
}

// plan puts the binaries that are neither provided nor current into batches.
func (b *Builder) plan(binaries []Binary) ([]batch, error) {
	var batches []batch
	for _, binary := range binaries {
		if b.provided(binary.Name) {
			b.Printer.Line("%-24s taken from KUBEBUILDER_ASSETS=%s", binary.Name, b.Assets)
			continue
		}
		flags, err := b.linkerFlags(binary)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", binary.Name, err)
		}
		stamp, current, err := b.stamped(binary, flags)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", binary.Name, err)
		}
		if current {
			continue
		}
		i := slices.IndexFunc(batches, func(g batch) bool {
			return g.module == binary.Module && g.flags == flags && g.inImage == binary.InImage
		})
		if i < 0 {
			i = len(batches)
			batches = append(batches, batch{module: binary.Module, flags: flags, inImage: binary.InImage})
		}
		batches[i].binaries = append(batches[i].binaries, binary)
		batches[i].stamps = append(batches[i].stamps, stamp)
	}
	return batches, nil
}

func (b *Builder) stampDir() string { return filepath.Join(b.Layout.Bin(), ".stamps") }

// stamped is the stamp that a binary is to have, and whether the one that is there has it. Without a stamp the go
// command has to be asked.
func (b *Builder) stamped(binary Binary, flags string) (want string, ok bool, err error) {
	if !binary.Pinned {
		return "", false, nil
	}
	if want, err = stamp(b.Layout.Root, binary, flags); err != nil {
		return "", false, err
	}
	ok, err = current(b.Layout.Binary(binary.Name), b.stampPath(binary), want)
	return want, ok, err
}

func (b *Builder) stampPath(binary Binary) string { return filepath.Join(b.stampDir(), binary.Name) }

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

// compile runs the go command and puts each result in place in one step, so that nobody ever sees half a binary.
func (b *Builder) compile(ctx context.Context, batch batch) error {
	return b.Printer.Step(batch.label(), func(note func(string)) (string, error) {
		note("building")
		fresh, err := os.MkdirTemp(b.stampDir(), "new-")
		if err != nil {
			return "", fmt.Errorf("creating folder for binaries: %w", err)
		}
		defer func() { _ = os.RemoveAll(fresh) }()
		// -v names each package as it is compiled: that is the progress.
		cmd := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-ldflags", batch.flags, "-o", fresh+string(filepath.Separator))
		for _, binary := range batch.binaries {
			cmd.Args = append(cmd.Args, binary.Package)
		}
		cmd.Dir = filepath.Join(b.Layout.Root, batch.module)
		// A workspace of the user would unpin the versions.
		cmd.Env = append(append(noGarbageCollection(), os.Environ()...), "CGO_ENABLED=0", "GOWORK=off")
		if batch.inImage {
			cmd.Env = append(cmd.Env, "GOOS=linux") // also on a Mac, for kind
		}
		if err := runCompiler(cmd, note); err != nil {
			return "", err
		}
		for i, binary := range batch.binaries {
			if err := b.putInPlace(filepath.Join(fresh, binary.executable()), binary, batch.stamps[i]); err != nil {
				return "", err
			}
		}
		return "built", nil
	})
}

// noGarbageCollection has compiler and linker, of which each run lasts for seconds, collect garbage only where memory
// gets short: a quarter of their time goes into that otherwise.
func noGarbageCollection() []string { return []string{"GOGC=off", "GOMEMLIMIT=2GiB"} }

// putInPlace moves a binary to where it belongs, and then writes its stamp, if it has one.
func (b *Builder) putInPlace(built string, binary Binary, stamp string) error {
	path := b.Layout.Binary(binary.Name)
	for _, file := range []string{path, b.stampPath(binary)} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("creating folder for a binary: %w", err)
		}
	}
	if err := os.Rename(built, path); err != nil {
		return fmt.Errorf("putting the binary in place: %w", err)
	}
	if stamp == "" {
		return nil
	}
	if err := os.WriteFile(b.stampPath(binary), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("writing stamp: %w", err)
	}
	return nil
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
