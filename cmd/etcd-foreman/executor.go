// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/currentrevision"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/view"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/rollouts"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// restrict lets a manager write only what an operator in executor mode may, and read Etcds as it does.
func restrict(kubeconfig *rest.Config, options *ctrl.Options, namespace string) {
	kubeconfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return guard{next, namespace} })
	options.Cache.ByObject[view.New()] = cache.ByObject{Transform: keep(view.Trim)}
	options.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, options)
		return view.Cache{Cache: c}, err
	}
}

// addExecutor adds what an operator in executor mode does: it runs tasks, and makes those of rollouts.
func addExecutor(mgr ctrl.Manager, config *configv1alpha1.OperatorConfiguration) error {
	now, rules, live := clock.RealClock{}, policy.New(config), view.Reader{Reader: mgr.GetAPIReader()}
	dialer := etcdclient.NewPool(now.Now)
	credentials := &certificates.Credentials{Reader: live, Clock: now}
	locker := &lock.Locks{}
	registry := newRegistry(mgr.GetClient(), live, dependencies{
		observer: observe.New(dialer, now, observe.WithCredentials(credentials), observe.WithSurroundings(mgr.GetCache()), observe.WithRule(replacer.Executor)),
		dialer:   dialer, credentials: credentials, clock: now, images: config.Images, rules: rules, rule: replacer.Executor,
		agents: agents{live: live, clock: now, api: config.AgentAPI},
	})
	makeUnavailable(registry)
	return errors.Join(
		(&rollouts.Reconciler{Client: mgr.GetClient(), Live: live, Clock: now, Rule: replacer.Executor, Metrics: rollouts.NewMetrics(metrics.Registry)}).Setup(mgr, config.Controllers.Rollout.ConcurrentSyncs),
		(&currentrevision.Reconciler{Client: mgr.GetClient(), Live: live, Locker: locker, Clock: now, Rule: replacer.Executor}).Setup(mgr, config.Controllers.Rollout.ConcurrentSyncs),
		(&engine.Reconciler{
			Client: mgr.GetClient(), Live: live, Registry: registry, Locker: locker,
			Recorder: mgr.GetEventRecorder("etcd-foreman"), Metrics: engine.NewMetrics(metrics.Registry), Clock: now,
		}).Setup(mgr, config.Controllers.Task.ConcurrentSyncs),
	)
}

// makeUnavailable keeps task types from running that write what another operator owns.
func makeUnavailable(registry tasks.Registry) {
	for taskType, message := range map[v1alpha1.TaskType]string{
		v1alpha1.RecreateRollout: "a RecreateRollout scales the StatefulSet, which etcd-druid owns; delete the pods by hand, or set replicas of the Etcd to 0 and back " +
			"if an outage is acceptable",
		v1alpha1.QuorumLossRecovery: "a QuorumLossRecovery changes the StatefulSet, the ConfigMap and the volumes of the members, which etcd-druid owns; " +
			"follow its procedure for a permanent quorum loss",
	} {
		registry[taskType] = tasks.Type{Unavailable: &tasks.Verdict{
			Outcome: tasks.Reject, Code: v1alpha1.ErrNotInExecutorMode, Message: "this operator is in executor mode: " + message,
		}}
	}
}
