// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
)

const (
	// clientPort is etcd's default, which every Etcd of the demo and the benchmarks uses.
	clientPort = "2379"
	// askTimeout bounds a request to a member.
	askTimeout = time.Second
	// moveTimeout bounds a change of leadership.
	moveTimeout = 30 * time.Second
)

// Leader returns the ordinal of the leader that every member knows.
func (c Cluster) Leader(ctx context.Context) (int, error) {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return 0, err
	}
	leader, id := -1, uint64(0)
	for i := range int(*set.Spec.Replicas) {
		var status etcdclient.Status
		err := c.ask(ctx, i, func(ctx context.Context, member etcdclient.Client) (err error) {
			status, err = member.Status(ctx)
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case status.Leader == 0:
			return 0, fmt.Errorf("%s knows no leader", c.PodName(i))
		case id != 0 && status.Leader != id:
			return 0, fmt.Errorf("%s knows another leader than %s", c.PodName(i), c.PodName(0))
		case status.Leader == status.MemberID:
			leader = i
		}
		id = status.Leader
	}
	if leader < 0 {
		return 0, fmt.Errorf("leader %x is none of the pods of %s", id, c.Key())
	}
	return leader, nil
}

// MoveLeader makes the member of an ordinal the leader.
func (c Cluster) MoveLeader(ctx context.Context, to int, note Note) error {
	return until(ctx, moveTimeout, c.PodName(to)+" to lead", note, func(ctx context.Context) (string, error) {
		leader, err := c.Leader(ctx)
		if err != nil || leader == to {
			return "", err
		}
		var successor uint64
		err = c.ask(ctx, to, func(ctx context.Context, member etcdclient.Client) error {
			status, err := member.Status(ctx)
			successor = status.MemberID
			return err
		})
		if err != nil {
			return "", err
		}
		err = c.ask(ctx, leader, func(ctx context.Context, member etcdclient.Client) error {
			return member.MoveLeader(ctx, successor)
		})
		return c.PodName(leader) + " still leads", err
	})
}

// ask does something with a client of a member.
func (c Cluster) ask(ctx context.Context, ordinal int, do func(context.Context, etcdclient.Client) error) error {
	pod, err := c.Pod(ctx, ordinal)
	if err != nil {
		return err
	}
	of, err := c.TLS(ctx)
	if err != nil {
		return err
	}
	scheme, config := "http", of(pod)
	if config != nil {
		scheme = "https"
	}
	member, err := etcdclient.NewDialer().Dial(scheme+"://"+net.JoinHostPort(pod.Status.PodIP, clientPort), config)
	if err != nil {
		return err
	}
	defer member.Close() //nolint:errcheck // the request has ended
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return do(ctx, member)
}
