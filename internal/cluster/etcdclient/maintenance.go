// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Database is what a member says of its database.
type Database struct {
	// Size of the file, the part of it that is in use, and the size that it may not outgrow, in bytes. The
	// Quota is 0 when the member does not report it: those older than 3.6 do not.
	Size, InUse, Quota int64
	// Revision of the member's key space.
	Revision int64
}

// Free is the part of the file that holds nothing, in bytes.
func (d Database) Free() int64 { return max(d.Size-d.InUse, 0) }

// AlarmKind says what an alarm is about.
type AlarmKind string

// The alarms of etcd.
const (
	// AlarmNoSpace: the database of a member has outgrown its quota. The cluster takes no writes.
	AlarmNoSpace AlarmKind = "NOSPACE"
	// AlarmCorrupt: the data of a member differs from that of the others.
	AlarmCorrupt AlarmKind = "CORRUPT"
)

// Alarm is one that a member has raised.
type Alarm struct {
	MemberID uint64
	Kind     AlarmKind
}

// probeKey is read to see whether a member takes reads. It need not exist.
const probeKey = "\x00"

// Database reads a key of the member and then asks for its status: a member that is being defragmented answers
// once it is through, so that what it reports is never the size of a file that is just being replaced.
func (c *client) Database(ctx context.Context) (Database, error) {
	if _, err := c.etcd.Get(ctx, probeKey, clientv3.WithSerializable(), clientv3.WithCountOnly()); err != nil {
		return Database{}, fmt.Errorf("reading a key of %s: %w", c.endpoint, err)
	}
	r, err := c.maintenance().Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		return Database{}, fmt.Errorf("asking %s for its status: %w", c.endpoint, err)
	}
	return Database{Size: r.DbSize, InUse: r.DbSizeInUse, Quota: r.DbSizeQuota, Revision: r.Header.GetRevision()}, nil
}

func (c *client) Read(ctx context.Context, linearizable bool) error {
	options := []clientv3.OpOption{clientv3.WithCountOnly()}
	if !linearizable {
		options = append(options, clientv3.WithSerializable())
	}
	if _, err := c.etcd.Get(ctx, probeKey, options...); err != nil {
		return fmt.Errorf("reading a key of %s: %w", c.endpoint, err)
	}
	return nil
}

// Compact asks for the compaction of the key space. A physical compaction ends when the member that was asked
// has removed what is old; that is so, too, when the compaction was asked for before and etcd calls it an error.
func (c *client) Compact(ctx context.Context, revision int64) error {
	_, err := c.etcd.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("asking %s to compact to revision %d: %w", c.endpoint, revision, err)
	}
	return nil
}

func (c *client) Defragment(ctx context.Context) error {
	if _, err := c.maintenance().Defragment(ctx, &etcdserverpb.DefragmentRequest{}); err != nil {
		return fmt.Errorf("asking %s to defragment its database: %w", c.endpoint, err)
	}
	return nil
}

func (c *client) Alarms(ctx context.Context) ([]Alarm, error) {
	r, err := c.etcd.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking %s for the alarms: %w", c.endpoint, err)
	}
	var alarms []Alarm
	for _, a := range r.Alarms {
		alarms = append(alarms, Alarm{MemberID: a.MemberID, Kind: AlarmKind(a.Alarm.String())})
	}
	return alarms, nil
}

func (c *client) Administers(ctx context.Context) error {
	// Whether auth is enabled, etcd 3.7 says to everybody.
	if _, err := c.etcd.RoleList(ctx); err != nil {
		return fmt.Errorf("asking %s for its roles: %w", c.endpoint, err)
	}
	return nil
}

// authRefusals are what a member with auth enabled answers to those who may not ask.
var authRefusals = []error{rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken}

// IsAuthRefusal reports whether a member has refused a request because auth is enabled, and the one who asked may not.
func IsAuthRefusal(err error) bool {
	return slices.ContainsFunc(authRefusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

func (c *client) Disarm(ctx context.Context, a Alarm) error {
	kind := etcdserverpb.AlarmType(etcdserverpb.AlarmType_value[string(a.Kind)])
	if _, err := c.etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: kind}); err != nil {
		return fmt.Errorf("asking %s to disarm %s of member %x: %w", c.endpoint, a.Kind, a.MemberID, err)
	}
	return nil
}
