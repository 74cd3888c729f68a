// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd reconciles the objects and the status of Etcds. The packages beneath it decide and act; the Reconciler runs them in order
// and writes one status at the end. It does not delete pods: the StatefulSet controller replaces outdated ones under RollingUpdate, and a
// rollout task does under OnDelete.
package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/base/logging"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/fence"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/leave"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/strategy"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Reconciler reconciles the objects and the status of Etcds. Its fields are set before it is first used.
type Reconciler struct {
	// Access has the Locker that is shared with the task engine: no task takes a step while an update strategy changes, or while
	// members are stopped or started.
	state.Access
	// Dialer and Credentials connect to members.
	Dialer      etcdclient.Dialer
	Credentials *certificates.Credentials
	// Source asks the cluster that the members of an Etcd are to join (firststart.Starter).
	Source func(context.Context, *v1alpha1.Etcd) observe.Source
	// ThroughSource observes the cluster that the members of an Etcd have joined, without its pods (leave.Leaver).
	ThroughSource func(context.Context, *v1alpha1.Etcd) (*cluster.Snapshot, error)
	// Recorder of events.
	Recorder events.EventRecorder
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
	// TLS restricts the versions and cipher suites of members.
	TLS configv1alpha1.TLS
	// AgentTrust returns whose requests the agents of an Etcd accept; if nil, the agents are not told.
	AgentTrust func(*v1alpha1.Etcd) auth.Trust
	// Allowed returns why the operator's configuration refuses an Etcd; nil if it does not. It may be nil.
	Allowed func(*v1alpha1.Etcd) error
	// Saved reports whether the members may be stopped for a Restore (scale.Scaler).
	Saved func(*v1alpha1.EtcdOperatorTask, time.Time) bool
	// QuorumAwareUpdates is the feature gate QuorumAwareUpdatesWithOnDelete.
	QuorumAwareUpdates bool
	// AdoptFromDruid is the feature gate AdoptFromDruid.
	AdoptFromDruid bool
	// Adopter returns what adopts the objects of Etcds.
	Adopter func(*Reconciler) state.Adopter

	once  sync.Once
	parts *parts
}

// parts are the parts of the Reconciler.
type parts struct {
	state.Access
	adopter    state.Adopter
	objects    *apply.Objects
	strategy   *strategy.Keeper
	tls        *tls.Mover
	fencer     fence.Fencer
	hibernator hibernation.Hibernator
	instructor memberconfig.Writer
	starter    firststart.Starter
	scaler     scale.Scaler
	leaver     *leave.Leaver
	volumes    *volumes.Grower
	failures   failures
	// followed: the follow-up stages have succeeded once in this process.
	followed memory.PerEtcd[bool]
	hanging  memory.PerEtcd[hanging]
	// looked is when the members were asked for what the status says.
	looked memory.PerEtcd[time.Time]
	status statusWriter
}

func (r *Reconciler) build() *parts {
	access := r.Access
	instructor := memberconfig.Writer{Access: access, AgentTrust: r.AgentTrust}
	reader := members.Reader{Dialer: r.Dialer, Credentials: r.Credentials}
	return &parts{
		Access:     access,
		adopter:    r.Adopter(r),
		objects:    &apply.Objects{Writer: apply.Writer{Client: r.Client, Live: r.API}, Clock: r.Clock},
		strategy:   &strategy.Keeper{Access: access, QuorumAware: r.QuorumAwareUpdates},
		tls:        &tls.Mover{Access: access, Dialer: r.Dialer, Credentials: r.Credentials, Managed: &managedtls.Manager{Access: access}},
		fencer:     fence.Fencer{Access: access},
		hibernator: hibernation.Hibernator{Access: access, Images: r.Images},
		instructor: instructor,
		starter:    firststart.Starter{Access: access, Instructor: instructor, Images: r.Images, Source: r.Source},
		scaler:     scale.Scaler{Access: access, Instructor: instructor, Members: reader.List, Saved: r.Saved},
		leaver:     &leave.Leaver{Access: access, Reader: reader, Observe: r.ThroughSource},
		volumes:    &volumes.Grower{Access: access},
		status:     statusWriter{client: r.Client, recorder: r.Recorder, clock: r.Clock},
	}
}

func (p *parts) forget(etcd types.NamespacedName) {
	p.objects.Forget(etcd)
	p.strategy.Forget(etcd)
	p.tls.Forget(etcd)
	p.leaver.Forget(etcd)
	p.volumes.Forget(etcd)
	p.failures.Forget(etcd)
	p.followed.Forget(etcd)
	p.hanging.Forget(etcd)
	p.looked.Forget(etcd)
	p.status.forget(etcd)
}

// Looked returns when the members of an Etcd were asked for what its status says now; zero if this process has not asked them.
func (r *Reconciler) Looked(etcd *v1alpha1.Etcd) time.Time {
	r.once.Do(func() { r.parts = r.build() })
	return r.parts.looked.Of(etcd)
}

// Reconcile reconciles one Etcd.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.once.Do(func() { r.parts = r.build() })
	etcd := &v1alpha1.Etcd{}
	if err := r.Client.Get(ctx, req.NamespacedName, etcd); apierrors.IsNotFound(err) {
		r.parts.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Etcd %s: %w", req, err)
	}
	if etcd.DeletionTimestamp != nil {
		// The garbage collector removes its objects, once its members have left a source cluster.
		return r.parts.leave(ctx, etcd)
	}
	if rollout := etcd.Status.Rollout; rollout != nil && rollout.Task != "" {
		// All controllers log the task of a rollout under the same key.
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(logging.KeyTask, klog.KRef(etcd.Namespace, rollout.Task)))
	}
	return (&pass{parts: r.parts, reconciler: r, etcd: etcd}).run(ctx)
}
