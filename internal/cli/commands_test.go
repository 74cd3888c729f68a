// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// shown is a command of the plugin in a document or in a message, to the end of what it may be in.
var shown = regexp.MustCompile("kubectl etcdtask ([^`\"|#;>\n)]*)")

// TestCommandsOfThePlugin checks that every command of the plugin that a document or a message of the operator shows exists, with its flags.
func TestCommandsOfThePlugin(t *testing.T) {
	root := newRoot(kube.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}))
	commands := 0
	check := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "adr" || name == "testdata") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".md" && ext != ".go" && ext != ".yaml" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// A line that ends with a backslash goes on, and strings in Go have escapes. One that ends with a space is followed by an argument.
		text := strings.NewReplacer("\\\n", " ", `\\\n`, " ", `\n`, "\n", `\"`, `"`).Replace(string(content))
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			commands++
			if why := wrong(root, strings.Fields(m[1]), filepath.Ext(path) == ".go" && !strings.HasSuffix(m[1], " ")); why != "" {
				t.Errorf("%s: kubectl etcdtask %s: %s", path, m[1], why)
			}
		}
		return nil
	}
	for _, folder := range []string{"README.md", "docs", "api", "internal", "tasks", "cmd", "charts", "config"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", folder), check); err != nil {
			t.Fatal(err)
		}
	}
	if commands < 130 {
		t.Errorf("found %d commands", commands)
	}
}

// wrong returns what is wrong with the arguments of a command; empty if nothing is. What a message shows is complete: people paste it.
func wrong(root *cobra.Command, args []string, message bool) string {
	cmd, rest, err := root.Find(args)
	switch {
	case err != nil:
		return err.Error()
	case cmd == root && len(args) > 0 && !strings.HasPrefix(args[0], "-") && !strings.HasPrefix(args[0], "%"):
		return "there is no such verb"
	case message && cmd != root && cmd.ValidateArgs(nil) != nil && (len(rest) == 0 || strings.HasPrefix(rest[0], "-") && rest[0] != "--change"):
		return "it lacks an argument"
	}
	if cmd != root {
		if excess := excess(cmd, positional(cmd, rest)); excess != "" {
			return "it does not take " + excess
		}
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.Trim(arg, "`'.,:*"), "=")
		switch long, isLong := strings.CutPrefix(name, "--"); {
		case isLong && long != "" && cmd.Flag(long) == nil:
			return "there is no flag " + name
		case !isLong && len(name) == 2 && name[0] == '-' && name[1] != '-' && cmd.Flags().ShorthandLookup(name[1:]) == nil && cmd.InheritedFlags().ShorthandLookup(name[1:]) == nil:
			return "there is no flag " + name
		}
	}
	return ""
}

// positional returns the arguments of a command that are neither flags nor their values.
func positional(cmd *cobra.Command, args []string) (given []string) {
	for i := 0; i < len(args); i++ {
		name, _, assigned := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			given = append(given, args[i])
			continue
		}
		flag := cmd.Flag(strings.TrimPrefix(name, "--"))
		if len(name) == 2 {
			flag = cmp.Or(cmd.Flags().ShorthandLookup(name[1:]), cmd.InheritedFlags().ShorthandLookup(name[1:]))
		}
		if flag != nil && flag.NoOptDefVal == "" && !assigned {
			i++
		}
	}
	return given
}

// excess returns the first argument that a command does not take; empty if it takes all of them. What a message fills in may be flags.
func excess(cmd *cobra.Command, given []string) string {
	for n, arg := range given {
		if !strings.HasPrefix(arg, "%") && cmd.ValidateArgs(given[:n]) == nil && cmd.ValidateArgs(given[:n+1]) != nil {
			return arg
		}
	}
	return ""
}

func TestWrong(t *testing.T) {
	root := newRoot(kube.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}))
	for command, want := range map[string]string{
		"flet resume wave":                  "there is no such verb",
		"fleet resum wave":                  "it does not take wave",
		"fleet resume wave":                 "",
		"fleet resume wave now":             "it does not take now",
		"fleet wave":                        "",
		"version now":                       "it does not take now",
		"rollout main -n ns --wait":         "",
		"rollout main other":                "it does not take other",
		"rollout main --wate":               "there is no flag --wate",
		"restore main --to latest --undo r": "",
		"restore main latest --wait":        "it does not take latest",
		"restore %s -n %s %s":               "",
		"override TASK a=true b=false":      "",
	} {
		if got := wrong(root, strings.Fields(command), false); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
