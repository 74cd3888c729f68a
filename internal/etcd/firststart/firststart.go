// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package firststart decides whether the members of an Etcd that records no cluster may begin one: only if no volume holds data that it
// would hide (docs/adr/0044-what-the-volumes-say-comes-first.md).
package firststart

import (
	"context"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// jobTimeout is the timeout of the Jobs that survey volumes, which read a database at most.
const jobTimeout = 4 * time.Hour

// Starter prepares the first start of members.
type Starter struct {
	state.Access
	Instructor memberconfig.Writer
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
	// Source queries the cluster that the members of an Etcd are to join (observe.Observer).
	Source func(context.Context, *v1alpha1.Etcd) observe.Source
}

// View is the progress of the first start of a cluster; the zero View if it has served.
type View struct {
	// Reason of the condition DataVolumesReady, and Why no member is started yet; empty if they may start.
	Reason, Why string
	// Found is the cluster whose data is on the volumes, to which the members belong; nil if there is none.
	Found *Cluster
	// Waits says why members that run already may not join their source yet; empty if they may, or if none runs.
	Waits string

	// begins: according to reads, members without data may begin the cluster. permitted: they have been told so.
	begins, permitted bool
	reads             state.Live
}

// Look takes the next step before the first start. It is called before the spec is applied, and does nothing if members run.
func (s Starter) Look(ctx context.Context, st *state.State, peerTLS component.PeerTLS, objects *apply.Session) (View, error) {
	etcd := st.Etcd
	if etcd.Spec.Replicas == 0 || etcd.Status.ClusterID != "" || etcd.Status.Recovery != nil {
		return View{}, nil
	}
	if state.Awake(st.StatefulSet) {
		if etcd.SourceStays() {
			// Running members wait, since nothing permits them to begin a cluster, and join once they may.
			d := s.joins(ctx, etcd, nil)
			if d.found == nil {
				return View{Waits: d.why}, nil
			}
			return View{Found: d.found}, nil
		}
		return View{}, s.inherit(ctx, st, objects)
	}
	reads := s.Live()
	f, err := s.find(ctx, reads, st, peerTLS)
	if err != nil {
		return View{}, err
	}
	d := decide(f)
	if etcd.SourceStays() && (d.begins || d.found != nil) {
		d = s.joins(ctx, etcd, d.found)
	}
	if err := s.carryOut(ctx, reads, st, f, d, objects); err != nil {
		return View{}, err
	}
	if d.found != nil {
		ctrl.LoggerFrom(ctx).Info("The members are those of a cluster that exists, which becomes that of the Etcd", "why", d.why, "clusterID", d.found.ID, "members", d.found.Size)
	}
	return View{Reason: d.reason, Why: d.why, Found: d.found, begins: d.begins, permitted: f.permit != nil, reads: reads}, nil
}

// joins asks the source whether members may join it.
func (s Starter) joins(ctx context.Context, etcd *v1alpha1.Etcd, found *Cluster) decision {
	return join(etcd, found, s.Source(ctx, etcd), etcd.EtcdImage(s.Images.Etcd))
}

// carryOut takes the step of a decision.
func (s Starter) carryOut(ctx context.Context, reads state.Live, st *state.State, f input, d decision, objects *apply.Session) error {
	if d.step == wait {
		return nil
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	if err := reads.Fresh(ctx); err != nil {
		return err
	}
	order := s.order(st.Etcd, st.StatefulSet)
	switch d.step {
	case wait:
	case withdraw:
		return s.Instructor.Permit(ctx, reads, st.Etcd, objects.Manager, nil)
	case surveyVolumes:
		return s.Surveyor().Go(ctx, order, f.volumes)
	case permit:
		// The Jobs are removed before members start, so their results are recorded first.
		return s.permit(ctx, reads, st.Etcd, objects.Manager, member.FirstStart{Claims: f.claims, Round: f.round})
	case removeJobs:
		return s.Surveyor().Remove(ctx, order)
	}
	return nil
}

// permit permits the members to begin the cluster.
func (s Starter) permit(ctx context.Context, reads state.Live, etcd *v1alpha1.Etcd, manager string, permit member.FirstStart) error {
	permit.Etcd = string(etcd.UID)
	if err := s.Instructor.Permit(ctx, reads, etcd, manager, &permit); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Permitted the members to begin their cluster: no volume holds data", "surveyed", len(permit.Claims))
	return nil
}

// Start is called right before a StatefulSet is scaled up from zero, or created: its members have to know to which cluster they belong, or
// that they may begin one.
func (s Starter) Start(ctx context.Context, etcd *v1alpha1.Etcd, v View, objects *apply.Session) error {
	switch {
	case etcd.Status.ClusterID != "":
		return s.Instructor.Write(ctx, s.API, etcd, objects)
	case v.begins && !v.permitted:
		return s.permit(ctx, v.reads, etcd, objects.Manager, member.FirstStart{})
	case v.begins:
		return v.reads.Fresh(ctx)
	}
	return nil
}

// Starts reports whether setting a StatefulSet to a number of replicas starts all members.
func Starts(base *appsv1.StatefulSet, replicas int32) bool {
	return replicas > 0 && (base == nil || ptr.Deref(base.Spec.Replicas, 1) == 0)
}
