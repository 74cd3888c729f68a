// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Database is what a member reports about its database.
type Database struct {
	// Size of the file, the part of it that is in use, and its maximum size, in bytes. The Quota is 0 if the member does not report it, as
	// before 3.6.
	Size, InUse, Quota int64
	// Revision of the member's key space.
	Revision int64
}

// Free is the unused part of the file, in bytes.
func (d Database) Free() int64 { return max(d.Size-d.InUse, 0) }

// AlarmKind is the kind of an alarm.
type AlarmKind string

// The alarms of etcd.
const (
	// AlarmNoSpace: the database of a member has exceeded its quota. The cluster accepts no writes.
	AlarmNoSpace AlarmKind = "NOSPACE"
	// AlarmCorrupt: the data of a member differs from that of the others.
	AlarmCorrupt AlarmKind = "CORRUPT"
)

// Alarm is an alarm that a member has raised.
type Alarm struct {
	// MemberID is 0 if etcd does not know which member it is, as with CORRUPT in etcd 3.5.
	MemberID uint64
	Kind     AlarmKind
}

const (
	// maxAlarms bounds the alarms of a status, and maxKind the bytes of a kind.
	maxAlarms, maxKind = 64, 32
)

// alarmsIn returns the alarms among the errors of a status, where etcd lists each as the text of its message: "memberID:1 alarm:NOSPACE ".
// Fields that are zero are left out, and how many spaces follow one depends on the library that wrote it.
func alarmsIn(lines []string) (alarms []Alarm) {
	for _, line := range lines {
		if a, ok := parseAlarm(line); ok && len(alarms) < maxAlarms {
			alarms = append(alarms, a)
		}
	}
	slices.SortFunc(alarms, func(a, b Alarm) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.MemberID, b.MemberID))
	})
	return slices.Compact(alarms)
}

// parseAlarm parses an alarm of any kind, also with fields that a newer etcd may add. Other errors, such as "etcdserver: no leader", are none.
func parseAlarm(line string) (a Alarm, ok bool) {
	for field := range strings.FieldsSeq(line) {
		switch name, value, _ := strings.Cut(field, ":"); name {
		case "memberID":
			// An alarm of an unknown member is better than none.
			a.MemberID, _ = strconv.ParseUint(value, 10, 64)
		case "alarm":
			a.Kind = AlarmKind(value)
		}
	}
	return a, isKind(string(a.Kind))
}

// isKind reports whether a text may be the name or the number of a kind. A newer etcd may have others.
func isKind(kind string) bool {
	return kind != "" && len(kind) <= maxKind && !strings.ContainsFunc(kind, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	})
}

// probeKey is read to check whether a member answers reads. It need not exist.
const probeKey = "\x00"

// Database reads a key of the member before its status. A member that is being defragmented only answers the read afterwards, so the status
// never has the size of a file that is being replaced.
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

// Compact requests a physical compaction of the key space, which ends when this member has removed the old revisions. That also holds if
// the compaction was requested before, which etcd reports as an error.
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
	// etcd 3.7 tells every client whether auth is enabled, so the roles are read instead.
	if _, err := c.etcd.RoleList(ctx); err != nil {
		return fmt.Errorf("asking %s for its roles: %w", c.endpoint, err)
	}
	return nil
}

// authRefusals are the errors with which a member with auth enabled refuses unauthorized requests.
var authRefusals = []error{rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken}

// IsAuthRefusal reports whether a member has refused a request because auth is enabled and the client is not authorized.
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
