// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/lock"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// Builder builds into the .local/bin of one checkout.
type Builder struct {
	Layout  layout.Layout
	Console *console.Console
	// Assets is a folder of ready-made binaries (KUBEBUILDER_ASSETS), which are not built. Empty for none.
	Assets string
}

// Build ensures that the named binaries exist and are current. A second Build of the same checkout waits for the first.
func (b *Builder) Build(ctx context.Context, names ...string) error {
	binaries, err := Select(names)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.stampDir(), 0o755); err != nil {
		return fmt.Errorf("creating folder for binaries: %w", err)
	}
	held, err := lock.File(ctx, b.Console, filepath.Join(b.stampDir(), "lock"), "build in this checkout")
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	batches, err := b.plan(binaries)
	if err != nil {
		return err
	}
	return b.compileAll(ctx, batches)
}

// compileAll compiles batch after batch, and in parallel downloads what the later ones need.
func (b *Builder) compileAll(ctx context.Context, batches []batch) error {
	ctx, cancel := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	defer fetching.Wait()
	defer cancel()
	if len(batches) > 1 {
		fetching.Go(func() { b.fetch(ctx, batches[1:]) })
	}
	for _, batch := range batches {
		if err := b.compile(ctx, batch); err != nil {
			return fmt.Errorf("building %s: %w", batch.label(), err)
		}
	}
	return nil
}

// batch is the programs that one run of the go command compiles: it links one while it compiles another.
type batch struct {
	module, flags string
	inImage       bool
	binaries      []Binary
	stamps        []string // of the binaries, when they are built; empty for those that have none
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
			b.Console.Line("%-24s taken from KUBEBUILDER_ASSETS=%s", binary.Name, b.Assets)
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

// stamped returns the stamp of a binary that is current, and whether the existing one has it. Without a stamp, that is up
// to the go command.
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

// provided reports whether KUBEBUILDER_ASSETS has the binary, in another folder than the one that this program fills.
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
