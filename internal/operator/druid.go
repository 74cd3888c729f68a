//go:build !nodruid

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/druid"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/adoption"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/compactionmetrics"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/copybackups"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/currentrevision"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/executor"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/opstask"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/view"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Controllers because of etcd-druid.
const (
	CurrentRevisions Controller = "settle"
	OpsTasks         Controller = "etcdopstask"
	CopyBackupsTasks Controller = "etcdcopybackupstask"
)

// connectDruid changes how the operator connects: in executor mode it writes only what it may, and reads Etcds as etcd-druid
// defines them. What it returns adds the webhook to the manager.
func connectDruid(config *configv1alpha1.OperatorConfiguration, kubeconfig *rest.Config, options *ctrl.Options, namespace string) (func(ctrl.Manager) error, error) {
	if config.Mode == configv1alpha1.ModeExecutor {
		druid.Restrict(kubeconfig, namespace, leaseName)
		options.Cache.ByObject[view.New()] = cache.ByObject{Transform: keep(view.Trim)}
		options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			c, err := cache.New(config, options)
			return view.Cache{Cache: c}, err
		}
	}
	if config.Server.WebhookBindAddress == "0" {
		return func(ctrl.Manager) error {
			if config.Mode == configv1alpha1.ModeExecutor {
				druid.CheckPolicies(kubeconfig)
			}
			return nil
		}, nil
	}
	keeper, server, err := druid.NewWebhook(kubeconfig, config.Server.WebhookBindAddress, namespace, config.TLS.Apply)
	options.WebhookServer = server
	return func(mgr ctrl.Manager) error { return druid.AddWebhook(mgr, keeper) }, err
}

// PublishWebhookCA writes the CA of the webhook of executor mode to the webhook's configuration, until the context ends.
func PublishWebhookCA(ctx context.Context, config *configv1alpha1.OperatorConfiguration) error {
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return druid.PublishWebhookCA(ctx, kubeconfig, operatorNamespace(config))
}

// besideDruid returns what etcd-druid changes in a mode of the operator.
func besideDruid(mode configv1alpha1.Mode, registerer prometheus.Registerer) (beside, error) {
	b := beside{
		rule: replacer.Operator{}, live: func(r client.Reader) client.Reader { return r }, parts: taskTypes, adopter: adopter,
		tasks: []engine.TaskMetrics{compactionmetrics.New(registerer)}, backlog: compactionmetrics.NewEvents(registerer).Publish,
	}
	if mode == configv1alpha1.ModeExecutor {
		b.manages, b.rule, b.unavailable, b.parts = true, executor.Rule{}, executor.Unavailable(), currentRevisions
		b.live = func(r client.Reader) client.Reader { return view.Reader{Reader: r} }
	}
	return b, nil
}

// adopter adopts the objects of Etcds from etcd-druid, and hands them back.
func adopter(r *etcd.Reconciler) state.Adopter {
	return adoption.Adopter{Access: r.Access, Images: r.Images, QuorumAware: r.QuorumAwareUpdates, Enabled: r.AdoptFromDruid}
}

// currentRevisions is the controller that only executor mode has.
func currentRevisions(c *composition) []part {
	r := &currentrevision.Reconciler{Client: c.Client, Live: c.Live, Locker: c.locker, Clock: c.Clock, Rule: c.beside.rule}
	return []part{{CurrentRevisions, func(_ context.Context, mgr ctrl.Manager) error {
		return r.Setup(mgr, c.config.Controllers.Rollout.ConcurrentSyncs)
	}}}
}

// taskTypes are the controllers of the task types of etcd-druid.
func taskTypes(c *composition) []part {
	served := func(name Controller, d servedcrd.Definition, setup func(ctrl.Manager, int) error) part {
		return part{name, func(ctx context.Context, mgr ctrl.Manager) error {
			return druid.AddIfServed(ctx, mgr, d, func(mgr ctrl.Manager) error { return setup(mgr, c.config.Controllers.Task.ConcurrentSyncs) })
		}}
	}
	copies := &copybackups.Reconciler{Client: c.Client, Live: c.Live, Clock: c.Clock, Image: c.config.Images.EtcdAgent, Rules: c.rules}
	ops := &opstask.Reconciler{Client: c.Client, Live: c.Live, Clock: c.Clock}
	return []part{served(CopyBackupsTasks, druid.CopyBackupsTasks(), copies.Setup), served(OpsTasks, druid.OpsTasks(), ops.Setup)}
}
