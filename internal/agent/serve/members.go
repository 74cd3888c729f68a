// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"fmt"
	"strconv"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// readShared reads the shared configuration; it is empty where there is none, or if it cannot be read.
func (s *Server) readShared(ctx context.Context) member.Shared {
	if s.Shared == nil {
		return member.Shared{}
	}
	shared, err := s.Shared()
	if err != nil {
		s.say(ctx, err, "Reading how the members change failed")
		return member.Shared{}
	}
	return shared
}

// promotes reports whether a learner of a cluster is to be promoted: in the new cluster of a recovery, until the operator says how its members
// change.
func promotes(shared member.Shared, clusterID uint64) bool {
	r := shared.Settled().Recovery
	return r != nil && shared.Members == nil && !r.LeavesBehind(strconv.FormatUint(clusterID, 16))
}

// readMembers reports in the lease what was read of the members that leave.
func (s *Server) readMembers(ctx context.Context, shared member.Shared) {
	read := cluster.Read{Etcd: shared.EtcdUID()}
	if m := shared.Members; m != nil {
		read.Generation, read.Leaving = m.Generation, m.Leaves(s.Name)
	}
	if s.removed != 0 {
		read.Removed = strconv.FormatUint(s.removed, 16)
	}
	if read != s.read && (read.Generation > 0 || s.removed != 0) {
		s.reportRead(ctx, read)
	}
}

func (s *Server) reportRead(ctx context.Context, read cluster.Read) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.Lease.Annotate(ctx, v1alpha1.AnnotationMembersRead, read.Encode()); err != nil {
		s.say(ctx, err, "Reporting how the members change failed")
		return
	}
	s.read = read
	s.Log.Info("Read how the members change", "generation", read.Generation, "leaving", read.Leaving, "removed", read.Removed)
}

// checkRemoved finds out whether a member that does not answer was removed: its etcd then ends each time that it starts.
func (s *Server) checkRemoved(ctx context.Context) {
	if s.removed != 0 || s.Writer == nil {
		return
	}
	clusterID, memberID, err := s.Writer()
	if err != nil || memberID == 0 {
		s.Log.V(1).Info("It is unknown whose data there is", "reason", fmt.Sprint(err))
		return
	}
	listed, err := s.Member.Listed(ctx, clusterID, memberID)
	if err != nil {
		s.Log.V(1).Info("The other members gave no member list", "reason", err.Error())
		return
	}
	if !listed {
		s.removed = memberID
		s.Log.Info("The member was removed from the cluster, and its etcd does not run any more: delete the pod, and its data is moved aside", "memberID", strconv.FormatUint(memberID, 16))
	}
}

// promote has a learner promoted, which only a recovery permits: otherwise the operator decides who votes.
func (s *Server) promote(ctx context.Context, status Status) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	began := s.Clock.Now()
	err := s.Member.Promote(ctx, status.MemberID)
	s.Metrics.promoted(s.Clock.Now().Sub(began), err)
	if err != nil {
		s.say(ctx, err, "The learner is not promoted yet")
		return
	}
	s.failing = ""
	s.Log.Info("Promoted the learner to a voter", "memberID", fmt.Sprintf("%x", status.MemberID))
}
