// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseLifetime is how long a member lease is believed after its last renewal.
const leaseLifetime = time.Minute

// readLeases adds the roles in the member leases of an Etcd to its ordinals.
func (o *Observer) readLeases(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, ordinals []cluster.Ordinal) error {
	now := o.clock.Now()
	return o.eachLease(ctx, reader, etcd, ordinals, func(ordinal *cluster.Ordinal, lease *coordinationv1.Lease) {
		ordinal.LeaseRole = o.renewals.leaseRole(lease, now)
	})
}

// Reads adds to the ordinals of a Snapshot what their agents have read about the members that are about to be removed. Only changes of
// members need it, so Observe does not read it.
func (o *Observer) Reads(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) error {
	return o.eachLease(ctx, reader, etcd, s.Ordinals, func(ordinal *cluster.Ordinal, lease *coordinationv1.Lease) {
		ordinal.Read = cluster.ParseRead(lease.Annotations[v1alpha1.AnnotationMembersRead], string(etcd.UID))
	})
}

// eachLease calls a function with each ordinal whose member has a lease, and that lease.
func (o *Observer) eachLease(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, ordinals []cluster.Ordinal, call func(*cluster.Ordinal, *coordinationv1.Lease)) error {
	leases := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, leases, client.InNamespace(etcd.Namespace), client.MatchingLabels{
		v1alpha1.LabelPartOf: etcd.Name, v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease,
	}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the member leases of Etcd %s/%s: %w", etcd.Namespace, etcd.Name, err)
	}
	for i := range leases.Items {
		for n := range ordinals {
			// A foreign lease says nothing about a member of this Etcd.
			if ordinals[n].Member == leases.Items[i].Name && o.rule.Foreign(etcd, "Lease", &leases.Items[i]) == nil {
				call(&ordinals[n], &leases.Items[i])
			}
		}
	}
	return nil
}

// renewals records when the operator saw each member lease renewed. The time in a lease comes from another machine's clock, so only its
// changes count.
type renewals struct {
	mu   sync.Mutex
	seen map[types.UID]renewal
	// forgot is when leases that are no longer read were last forgotten.
	forgot time.Time
	// asWritten: the time in a lease is believed at first sight.
	asWritten bool
}

type renewal struct {
	renewTime time.Time
	at        time.Time
	// read is when the lease was last read.
	read time.Time
}

// forgetAfter is how long a lease that is no longer read is remembered: its Etcd is gone, or its members answer.
const forgetAfter = 10 * leaseLifetime

// leaseRole returns the role in a lease; RoleUnknown unless the lease was seen renewed within leaseLifetime.
func (r *renewals) leaseRole(lease *coordinationv1.Lease, now time.Time) v1alpha1.Role {
	if lease == nil || lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil {
		return v1alpha1.RoleUnknown
	}
	if r.asWritten {
		if now.Sub(lease.Spec.RenewTime.Time) > leaseLifetime {
			return v1alpha1.RoleUnknown
		}
		return holderRole(*lease.Spec.HolderIdentity)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	last, known := r.seen[lease.UID]
	switch {
	case !known:
		// The first read is not a renewal: the lease may be years old.
		last = renewal{}
	case !last.renewTime.Equal(lease.Spec.RenewTime.Time):
		last.at = now
	}
	last.renewTime, last.read = lease.Spec.RenewTime.Time, now
	r.remember(lease.UID, last)
	if last.at.IsZero() || now.Sub(last.at) > leaseLifetime {
		return v1alpha1.RoleUnknown
	}
	return holderRole(*lease.Spec.HolderIdentity)
}

// forget forgets, from time to time, the leases that are no longer read. The caller holds the mutex.
func (r *renewals) forget(now time.Time) {
	if now.Sub(r.forgot) < leaseLifetime {
		return
	}
	r.forgot = now
	maps.DeleteFunc(r.seen, func(_ types.UID, known renewal) bool { return now.Sub(known.read) > forgetAfter })
}

func (r *renewals) remember(uid types.UID, seen renewal) {
	if r.seen == nil {
		r.seen = map[types.UID]renewal{}
	}
	r.seen[uid] = seen
}

// holderRole parses "<memberID>:<role>" and the newer "<memberID>:<clusterID>:<role>".
func holderRole(holder string) v1alpha1.Role {
	switch holder[strings.LastIndex(holder, ":")+1:] {
	case "Leader":
		return v1alpha1.RoleLeader
	case "Member":
		return v1alpha1.RoleFollower
	}
	return v1alpha1.RoleUnknown
}
