// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Change is a put or a deletion.
type Change struct {
	Key []byte
	// Revision of the change, and the Bytes of key and value.
	Revision, Bytes int64
	// Behind is by how many revisions the member was ahead of this change when it sent it: many, if changes are not read fast enough.
	Behind int64
}

// Watcher is a Client that can see changes.
type Watcher interface {
	// Watch calls a function with every change from now on, until it returns false. It returns an error if the context ends, or if the
	// member knows no leader: it would send no changes, and keep the stream open. If the member does not begin to watch, the error is
	// ErrNotWatched.
	Watch(ctx context.Context, see func(Change) (more bool)) error
}

// ErrNotWatched is the error of a member that did not begin to watch in time, which may hang.
var ErrNotWatched = errors.New("the member did not begin to watch in time")

// watchTimeout is how long a member may take to begin to watch.
const watchTimeout = 5 * time.Second

// maxChanges bounds a message with changes, in bytes. etcd divides large ones, but a change may be as large as a request.
const maxChanges = 16 << 20

// Watch implements Watcher.
func (c *client) Watch(ctx context.Context, see func(Change) (more bool)) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	begin := time.AfterFunc(watchTimeout, func() { cancel(ErrNotWatched) })
	began := false
	failed := func(err error) error {
		if late := context.Cause(ctx); !began && (errors.Is(late, ErrNotWatched) || errors.Is(late, context.DeadlineExceeded)) {
			err = ErrNotWatched
		}
		return fmt.Errorf("watching %s: %w", c.endpoint, err)
	}
	stream, err := etcdserverpb.NewWatchClient(c.etcd.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(maxChanges))
	if err == nil {
		everything := []byte{0}
		err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{Key: everything, RangeEnd: everything, Fragment: true},
		}})
	}
	if err != nil {
		return failed(err)
	}
	for {
		r, err := stream.Recv()
		if err == nil && r.GetCanceled() {
			err = errors.New(r.GetCancelReason())
		}
		if err != nil {
			return failed(err)
		}
		began = begin.Stop() || began
		for _, e := range r.GetEvents() {
			kv := e.GetKv()
			change := Change{Key: kv.GetKey(), Revision: kv.GetModRevision(), Bytes: int64(len(kv.GetKey()) + len(kv.GetValue()))}
			change.Behind = r.GetHeader().GetRevision() - change.Revision
			if !see(change) {
				return nil
			}
		}
	}
}
