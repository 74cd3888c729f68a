// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"gocloud.dev/blob"
)

// maxObjects is the maximum number of objects beneath a prefix, with those of other tools.
const maxObjects = 1_000_000

// maxLists is how often a folder is listed again at most because a file in it was gone.
const maxLists = 100

// objects reads and writes the objects of a bucket or a folder, whatever they hold. It is safe for concurrent use.
type objects struct {
	config Config
	// max bounds a listing.
	max int

	mu     sync.Mutex
	bucket *blob.Bucket
	read   string // state of the credentials that the bucket was opened with
}

// String names the bucket or the folder, without secrets.
func (o *objects) String() string {
	return fmt.Sprintf("%s container %s, prefix %s", o.config.Provider, o.config.Container, o.config.Prefix)
}

// isLocal reports whether the objects are files in a folder.
func (o *objects) isLocal() bool { return o.config.Provider == Local }

// file returns the file of an object in a folder.
func (o *objects) file(key string) string {
	return filepath.Join(o.config.Container, filepath.FromSlash(key))
}

// open returns the bucket, and reopens it if its credentials have changed.
func (o *objects) open(ctx context.Context) (*blob.Bucket, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, err := state(o.config.Credentials)
	if err != nil {
		return nil, unusable(fmt.Errorf("reading the credentials of the store: %w", err))
	}
	if err := o.present(); err != nil {
		return nil, err
	}
	if o.bucket != nil && now == o.read {
		return o.bucket, nil
	}
	bucket, err := o.config.openBucket(ctx)
	if err != nil {
		return nil, unusable(fmt.Errorf("opening the store: %w", err))
	}
	// The old bucket is not closed: a transfer may still use it, and otherwise it only has idle connections.
	o.bucket, o.read = bucket, now
	return bucket, nil
}

// present returns an error if the folder of a Local store is missing. A volume that is not mounted is no empty store, and what is written
// would be beside it.
func (o *objects) present() error {
	if !o.isLocal() || o.config.Container == "" {
		return nil
	}
	if _, err := os.Stat(o.config.Container); err != nil {
		return unusable(fmt.Errorf("opening the store: its folder cannot be found, so its volume may not be mounted: %w", err))
	}
	return nil
}

// readable returns an error if a folder of a Local store cannot be read: a listing skips it, as if it were empty. One that nothing was written
// to yet is missing.
func (o *objects) readable(folder string) error {
	if !o.isLocal() {
		return nil
	}
	dir, err := os.Open(o.file(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return o.present()
	}
	if err != nil {
		return unusable(fmt.Errorf("listing the store: %w", err))
	}
	_, err = dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return unusable(fmt.Errorf("listing the store: %w", err))
	}
	return nil
}

// close ends the connections.
func (o *objects) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bucket.Close()
}

// in visits the objects in a folder, by their names.
func (o *objects) in(ctx context.Context, folder string, visit func(name string, object *blob.ListObject)) error {
	err := o.each(ctx, folder+"/", func(object *blob.ListObject) { visit(strings.TrimPrefix(object.Key, folder+"/"), object) })
	if err != nil {
		return err
	}
	return o.readable(folder)
}

// each visits the objects whose keys begin with a prefix.
func (o *objects) each(ctx context.Context, prefix string, visit func(*blob.ListObject)) error {
	bucket, err := o.open(ctx)
	if err != nil {
		return err
	}
	options, seen := &blob.ListOptions{Prefix: prefix}, map[string]bool{}
	list := bucket.List(options)
	for n, again := 0, 0; ; {
		object, err := list.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case o.isLocal() && isMissing(err) && again < maxLists:
			// A file of the folder was renamed or removed between its name and its size: it is being written.
			list, again = bucket.List(options), again+1
			continue
		case err != nil && o.isLocal() && ctx.Err() == nil:
			return unusable(fmt.Errorf("listing the store: %w", err))
		case err != nil:
			return fmt.Errorf("listing the store: %w", o.refused(err))
		case seen[object.Key]:
			continue
		case n == o.max:
			return unusable(fmt.Errorf("listing the store: %s has more than %d objects: check who writes to it, and remove what is not needed", o, o.max))
		}
		if o.isLocal() {
			seen[object.Key] = true
		}
		visit(object)
		n++
	}
}

// remove removes objects, one after the other. A missing one is not an error; one that cannot be removed is a *RemovalError.
func (o *objects) remove(ctx context.Context, keys []string) error {
	bucket, err := o.open(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := bucket.Delete(ctx, key); err != nil && !isMissing(err) {
			return &RemovalError{filepath.Base(key), err}
		}
	}
	return nil
}

// readSmall reads an object, and no more than a number of bytes of it.
func (o *objects) readSmall(ctx context.Context, key string, most int64) (data []byte, err error) {
	bucket, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	// It was only read.
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, most))
}

// writeSmall writes an object that is held in memory, as a whole or not at all. A file is synced, with its folder.
func (o *objects) writeSmall(ctx context.Context, key, contentType string, data []byte) error {
	if !o.isLocal() {
		bucket, err := o.open(ctx)
		if err != nil {
			return err
		}
		return o.refused(bucket.WriteAll(ctx, key, data, &blob.WriterOptions{ContentType: contentType}))
	}
	folder := filepath.Dir(o.file(key))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o640), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), o.file(key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return errors.Join(crashsafe.Sync(folder), crashsafe.Sync(filepath.Dir(folder)))
}
