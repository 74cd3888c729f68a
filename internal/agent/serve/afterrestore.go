// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// AfterRestore knows whether this member needs a full snapshot because it was restored or its cluster recovered. The note of that is
// removed once the snapshot is in the store, so that neither a restart nor a change of the leader takes another.
type AfterRestore struct {
	Log    logr.Logger
	Shared SharedFrom
	// Recorded returns the ID of the recovered cluster of which a member has taken a full snapshot; empty for none.
	Recorded func(context.Context) (clusterID string, err error)
	// Record records it.
	Record func(ctx context.Context, clusterID string) error
}

// NeedsFull reports whether a full snapshot is needed before any delta. What cannot be read means that it is.
func (r AfterRestore) NeedsFull(ctx context.Context) bool {
	file, note, err := r.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		r.Log.Error(err, "Reading whether the member was restored failed")
		return true
	}
	recorded, err := r.Recorded(ctx)
	if err != nil {
		r.Log.Error(err, "Reading which full snapshot was taken after the recovery failed")
		return true
	}
	if !note.Settled(recorded) {
		return true
	}
	r.Log.Info("Another member has taken the full snapshot of the recovered cluster", "clusterID", recorded)
	r.remove(file)
	return false
}

// Took is called when a full snapshot of this member is in the store. A failure costs one more.
func (r AfterRestore) Took(ctx context.Context) {
	file, note, err := r.read()
	if err != nil {
		// NeedsFull has logged the cause, unless there is no note.
		return
	}
	r.remove(file)
	if note.ClusterID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := r.Record(ctx, note.ClusterID); err != nil {
		r.Log.Error(err, "Recording the full snapshot of the recovered cluster failed", "clusterID", note.ClusterID)
	}
}

func (r AfterRestore) read() (file string, note member.RestoreNote, err error) {
	shared, err := r.Shared()
	if err != nil {
		return "", note, err
	}
	file = shared.RestoreNoteFile()
	text, err := os.ReadFile(file)
	return file, member.ParseRestoreNote(string(text)), err
}

func (r AfterRestore) remove(file string) {
	if err := os.Remove(file); err != nil {
		r.Log.Error(err, "Removing the note that the member was restored failed")
	}
}

// RecoveredCluster returns a function that reads of which recovered cluster the lease of full snapshots records one.
func RecoveredCluster(config *rest.Config, namespace, lease string) (func(context.Context) (string, error), error) {
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for leases: %w", err)
	}
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		l, err := client.Leases(namespace).Get(ctx, lease, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("reading lease %s/%s: %w", namespace, lease, err)
		}
		return l.Annotations[v1alpha1.AnnotationBackupOfRecovered], nil
	}, nil
}
