// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command image writes a container image as a docker archive to its standard
// output: the given files in one layer, nothing else.
//
// It is for static binaries on a machine without a registry and without a
// container builder. The archive depends on nothing but its arguments and the
// content of the files, so the same binary always gives the same image ID.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// stringList is a flag that may be given several times.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, ",") }

func (l *stringList) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	tag := flags.String("name", "", "name and tag of the image, for example localhost/etcd:v3.6.8")
	var spec imageSpec
	flags.Var((*stringList)(&spec.Entrypoint), "entrypoint", "word of the entrypoint; may be repeated")
	flags.Var((*stringList)(&spec.Cmd), "cmd", "word of the default command; may be repeated")
	flags.Var((*stringList)(&spec.Env), "env", "NAME=VALUE; may be repeated")
	flags.Var((*stringList)(&spec.Dirs), "dir", "empty directory to create; may be repeated")
	flags.StringVar(&spec.User, "user", "65532:65532", "numeric user and group that the image runs as")
	flags.StringVar(&spec.WorkingDir, "workdir", "/", "working directory")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: image -name NAME:TAG [flag...] FILE=/PATH/IN/IMAGE... > archive.tar")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	ref, err := name.NewTag(*tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading flag -name: %w", err)
	}
	for _, arg := range flags.Args() {
		source, path, found := strings.Cut(arg, "=")
		if !found || !strings.HasPrefix(path, "/") {
			return fmt.Errorf("argument %q: want FILE=/PATH/IN/IMAGE", arg)
		}
		spec.Files = append(spec.Files, file{Source: source, Path: path})
	}
	img, err := spec.build()
	if err != nil {
		return fmt.Errorf("building image %s: %w", ref, err)
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := tarball.Write(ref, img, out); err != nil {
		return fmt.Errorf("writing image %s: %w", ref, err)
	}
	return out.Flush()
}
