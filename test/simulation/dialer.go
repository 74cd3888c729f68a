// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// dialer is how an operator reaches members.
type dialer struct{ operator *operator }

// Dial implements etcdclient.Dialer.
func (d dialer) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	return &asked{d.operator, strings.TrimSuffix(strings.TrimPrefix(endpoint, "http://"), ":2379")}, nil
}

// asked is what answers at an address.
type asked struct {
	operator *operator
	ip       string
}

var errRefused = errors.New("connection refused")

// ask asks the member that is at the address when it is the request's turn.
func (a *asked) ask(ctx context.Context, what string, do func(w *World, m *members.Member) error) (err error) {
	o := a.operator
	who, _ := ctx.Value(whoKey{}).(string)
	carried := o.world.Call(o.actor, who, what+" "+a.ip, func(release func()) {
		o.world.faults.ask(ctx, o, who, a.ip, do, func(answer error) {
			err = answer
			release()
		})
	})
	if !carried {
		return disturb.ErrKilled
	}
	return err
}

// entries is how many entries of raft's log one of the model stands for.
const entries = 30

func (a *asked) Status(ctx context.Context) (s etcdclient.Status, err error) {
	err = a.ask(ctx, "status of", func(_ *World, m *members.Member) error {
		d := m.Disk
		cluster, err := strconv.ParseUint(d.Cluster, 16, 64)
		s = etcdclient.Status{
			ClusterID: cluster, MemberID: d.Member, Leader: m.Leader, Term: d.Term, Version: "3.6.8", StorageVersion: "3.6.0",
			CommittedIndex: uint64(d.Commit) * entries, AppliedIndex: uint64(d.Base+len(d.Applied())) * entries, Learner: m.IsLearner(),
		}
		return err
	})
	return s, err
}

func (a *asked) Members(ctx context.Context) (list []etcdclient.Member, err error) {
	err = a.ask(ctx, "member list of", func(_ *World, m *members.Member) error {
		if m.IsLearner() {
			return errors.New("etcdserver: rpc not supported for learner")
		}
		list = listOf(m.List())
		return nil
	})
	return list, err
}

func listOf(peers []members.Peer) (list []etcdclient.Member) {
	for _, p := range peers {
		of := etcdclient.Member{ID: p.ID, Name: p.Name, Learner: p.Learner, PeerURLs: []string{p.PeerURL}}
		if p.Started {
			of.ClientURLs = []string{strings.Replace(p.PeerURL, ":2380", ":2379", 1)}
		}
		list = append(list, of)
	}
	return list
}

func (a *asked) ConfirmedMembers(ctx context.Context) (list []etcdclient.Member, err error) {
	err = a.ask(ctx, "confirmed member list of", func(w *World, m *members.Member) error {
		_, peers, err := w.Etcd.Linearizable(m)
		list = listOf(peers)
		return err
	})
	return list, err
}

// listChange is a change of the member list that an operator asks for: the member is promoted, or removed.
type listChange struct {
	id       uint64
	promotes bool
}

// change asks for a change of the member list, whose answer may be lost, and which may be late.
func (a *asked) change(ctx context.Context, what string, c listChange, do func(w *World, m *members.Member) error) error {
	return a.ask(context.WithValue(ctx, writesKey{}, true), what, func(w *World, m *members.Member) error {
		breaks := w.of(m.Name).changes(a.operator, c)
		err := refusal(do(w, m))
		switch {
		case err != nil:
			w.Log(m.Name, "  refuses: "+err.Error())
		case breaks != "":
			w.broke("%s", breaks)
		case w.faults.fatal && c.id != 0:
			a.operator.kill()
		}
		return err
	})
}

func (a *asked) AddLearner(ctx context.Context, urls []string) error {
	return a.change(ctx, "add learner "+urls[0]+" at", listChange{}, func(w *World, m *members.Member) error { return w.Etcd.AddLearner(m, urls[0]) })
}

func (a *asked) PromoteLearner(ctx context.Context, id uint64) error {
	return a.change(ctx, fmt.Sprintf("promote %x at", id), listChange{id, true}, func(w *World, m *members.Member) error { return w.Etcd.Promote(m, id) })
}

func (a *asked) RemoveMember(ctx context.Context, id uint64) error {
	return a.change(ctx, fmt.Sprintf("remove %x at", id), listChange{id, false}, func(w *World, m *members.Member) error { return w.Etcd.Remove(m, id) })
}

// refusal returns an error of the model as etcd's client has it.
func refusal(err error) error {
	switch {
	case errors.Is(err, members.ErrUnhealthy):
		return rpctypes.ErrUnhealthy
	case errors.Is(err, members.ErrNotReady):
		return rpctypes.ErrMemberLearnerNotReady
	case errors.Is(err, members.ErrNotFound):
		return rpctypes.ErrMemberNotFound
	case errors.Is(err, members.ErrURLExists):
		return rpctypes.ErrPeerURLExist
	case errors.Is(err, members.ErrTooMany):
		return rpctypes.ErrTooManyLearners
	case errors.Is(err, members.ErrNoStrictQuota):
		return rpctypes.ErrMemberNotEnoughStarted
	}
	return err
}

func (a *asked) MoveLeader(ctx context.Context, to uint64) error {
	return a.ask(ctx, fmt.Sprintf("move leader to %x at", to), func(w *World, m *members.Member) error { return w.Etcd.MoveLeader(m, to) })
}

func (a *asked) Database(ctx context.Context) (d etcdclient.Database, err error) {
	err = a.ask(ctx, "database of", func(w *World, m *members.Member) error {
		d = etcdclient.Database{Size: databaseBytes, InUse: databaseBytes, Revision: m.Disk.Revision()}
		if at, was := w.defragmented[m.Name]; !was || w.Now()-at > fragments {
			d.Size *= 2
		}
		return nil
	})
	return d, err
}

func (a *asked) Read(ctx context.Context, linearizable bool) error {
	return a.ask(ctx, "read at", func(w *World, m *members.Member) error {
		if linearizable {
			return w.served(m)
		}
		return nil
	})
}

// fragments is how long after it was defragmented a database has space to free again.
const fragments = time.Minute

func (a *asked) Compact(ctx context.Context, _ int64) error {
	return a.ask(ctx, "compact", func(w *World, m *members.Member) error {
		w.compacted[etcdOf(m.Name)] = w.Now()
		return w.served(m)
	})
}

func (a *asked) Defragment(ctx context.Context) error {
	return a.ask(ctx, "defragment", func(w *World, m *members.Member) error {
		w.defragmented[m.Name] = w.Now()
		return nil
	})
}

func (a *asked) Alarms(ctx context.Context) ([]etcdclient.Alarm, error) {
	return nil, a.ask(ctx, "alarms of", func(w *World, m *members.Member) error { return w.served(m) })
}

func (a *asked) Administers(ctx context.Context) error {
	return a.ask(ctx, "roles of", func(w *World, m *members.Member) error { return w.served(m) })
}

func (a *asked) Disarm(ctx context.Context, _ etcdclient.Alarm) error {
	return a.ask(ctx, "disarm", func(w *World, m *members.Member) error { return w.served(m) })
}

func (a *asked) SetPeerURLs(context.Context, uint64, []string) error {
	return errors.New("changing peer URLs is not modeled")
}

func (a *asked) Close() error { return nil }

func (w *World) served(m *members.Member) error {
	if !w.Etcd.Serves(m) {
		return members.ErrNoQuorum
	}
	return nil
}
