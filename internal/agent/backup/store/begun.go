// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"gocloud.dev/blob"
)

// A cluster that begins from the backup has a marker, too, which outlives the volume that it begins on. It names the cluster, by its token, and
// the copy that was restored: the same cluster never begins with another one. It is never removed: a member may read an old configuration.
const begunPrefix = "begun."

// ErrBegun is returned by Begin if the new cluster may have begun with another copy.
var ErrBegun = errors.New("the new cluster may have begun with other data, on another volume")

// Begun reports whether the cluster with a token may have begun with another copy than one; without one, whether it may have begun at all.
func (s *Store) Begun(ctx context.Context, token, copyID string) (bool, error) {
	_, another, err := s.begun(ctx, token, copyID)
	return another, err
}

// Begin marks that the cluster with a token begins with a copy, which must not be used before. It may be called again.
func (s *Store) Begin(ctx context.Context, token, copyID string) error {
	marked, another, err := s.begun(ctx, token, copyID)
	if err == nil && !marked && !another {
		name := begunPrefix + token + "." + copyID
		err = s.objects.writeSmall(ctx, path.Join(s.keptFolder(), name), "text/plain", []byte(name+"\n"))
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			return fmt.Errorf("%s can be read, and refuses the marker that the new cluster begins: let its credentials write objects to %s/, beside the snapshots. Without the marker a cluster of several members does not begin from the backup, since it could begin twice (%w)", s, s.keptFolder(), refused)
		}
		if err == nil {
			// Of two that begin at the same time, at least one sees the marker of the other.
			_, another, err = s.begun(ctx, token, copyID)
		}
	}
	if err != nil {
		return fmt.Errorf("marking in %s that the new cluster begins: %w", s, err)
	}
	if another {
		return ErrBegun
	}
	return nil
}

// begun reports whether there is a marker of a cluster with a copy, and one with another.
func (s *Store) begun(ctx context.Context, token, copyID string) (marked, another bool, err error) {
	err = s.objects.in(ctx, s.keptFolder(), func(name string, _ *blob.ListObject) {
		if found, ok := strings.CutPrefix(name, begunPrefix+token+"."); ok {
			marked, another = marked || found == copyID, another || found != copyID
		}
	})
	return marked, another, err
}
