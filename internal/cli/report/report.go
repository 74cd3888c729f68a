// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package report has the verb report, which writes an archive of what a bug report needs, without secrets, and the verb version.
package report

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct {
	*kube.Kube
	path string
}

// Commands returns the verbs. The program is how the plugin is called.
func Commands(k *kube.Kube, program string) []*cobra.Command {
	return []*cobra.Command{newReportCommand(k), newVersionCommand(k, program)}
}

func newReportCommand(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "report ETCD", Short: "Write an archive of what a bug report needs, without secrets",
		Long: "Writes a .tar.gz with the Etcd, its tasks, StatefulSet, revisions, pods, claims, leases and events, the newest log lines of its pods and of the operator, and all versions.\n" +
			"Secrets are not read. Values of environment variables, and what looks like a secret elsewhere, are replaced; read the files before you publish them. " +
			"What you may not read is left out: the file missing.txt names it.",
		Example: "  # Write the report on etcd-main into this folder\n  kubectl etcdtask report etcd-main\n\n" +
			"  # Look into it first\n  kubectl etcdtask report etcd-main -f - | tar -tz",
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		RunE: k.Run(c.run),
	}
	cmd.Flags().StringVarP(&c.path, "file", "f", "", "File to write, which must not exist; - for the standard output (default: etcdtask-report-NAMESPACE-ETCD-TIME.tar.gz).")
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	name, err := kube.EtcdName(arg)
	if err != nil {
		return err
	}
	// A user who may not read the Etcd may still read the rest.
	if _, err := cluster.Etcd(ctx, name); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	read, err := cluster.Logs()
	if err != nil {
		return err
	}
	all := &collector{cluster: cluster, logs: read, etcd: client.ObjectKey{Namespace: cluster.Namespace, Name: name}}
	all.collect(ctx, readVersions(ctx, cluster))
	if ctx.Err() != nil {
		return fmt.Errorf("reading Etcd %s: %w", name, ctx.Err())
	}
	all.finish()
	now := c.Clock.Now().UTC()
	folder := fmt.Sprintf("etcdtask-report-%s-%s-%s", cluster.Namespace, name, now.Format("20060102T150405Z"))
	path := cmp.Or(c.path, folder+".tar.gz")
	if err := c.write(path, folder, all.files, now); err != nil {
		return err
	}
	say := fmt.Sprintf("%s has %d files. Secrets were not read, and what looks like one was replaced; read the files before you publish them.", path, len(all.files))
	if path == "-" {
		say = strings.Replace(say, "- has", "The report has", 1)
	}
	text.Print(c.ErrOut, say)
	if n := len(all.missing); n > 0 {
		text.Print(c.ErrOut, fmt.Sprintf("%d parts could not be read: missing.txt in the report names them. The first: %s", n, all.missing[0]))
	}
	return nil
}

// finish adds the list of what is missing.
func (c *collector) finish() {
	if len(c.missing) > 0 {
		c.add("missing.txt", []byte(strings.Join(c.missing, "\n")+"\n"))
	}
}

// write writes the archive to a new file that only the user may read, or to the standard output.
func (c *command) write(path, folder string, files []file, now time.Time) error {
	if path == "-" {
		return archive(c.Out, folder, files, now)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return kube.Failure("%s exists already: choose another file with --file", path)
	}
	if err != nil {
		return kube.Failure("the report cannot be written: %v", err)
	}
	if err := errors.Join(archive(out, folder, files, now), out.Close()); err != nil {
		_ = os.Remove(path)
		return kube.Failure("writing %s: %v", path, err)
	}
	return nil
}

// archive writes files into one folder of a tar.gz.
func archive(out io.Writer, folder string, files []file, now time.Time) error {
	zipped := gzip.NewWriter(out)
	t := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: folder + "/" + f.name, Mode: 0o600, Size: int64(len(f.data)), ModTime: now, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(header); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
		if _, err := t.Write(f.data); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := errors.Join(t.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("packing the report: %w", err)
	}
	return nil
}
