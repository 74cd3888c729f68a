// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version/buildinfo"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/compactionmetrics"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/webhookcert"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/rollouts"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/upkeep"
	"github.com/etcd-foreman/etcd-foreman/internal/operator/metrics"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=etcd-foreman-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=etcd-foreman-system,resources=events,verbs=create;patch

// leaseName is the name of the leader election Lease.
const leaseName = "etcd-foreman"

func newManager(ctx context.Context, config *configv1alpha1.OperatorConfiguration) (ctrl.Manager, error) {
	gates, err := configv1alpha1.NewFeatureGate(config.FeatureGates)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := clientConfig(config)
	if err != nil {
		return nil, err
	}
	options, err := managerOptions(config)
	if err != nil {
		return nil, err
	}
	namespace := operatorNamespace(config)
	executor := config.Mode == configv1alpha1.ModeExecutor
	var keeper *webhookcert.Keeper
	if executor {
		restrict(kubeconfig, &options, namespace)
	} else if err := checkEtcds(ctx, kubeconfig); err != nil {
		return nil, err
	}
	if config.Server.WebhookBindAddress != "0" {
		if keeper, options.WebhookServer, err = newKeeper(kubeconfig, config.Server.WebhookBindAddress, namespace); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(kubeconfig, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := addCommon(ctx, mgr, keeper); err != nil {
		return nil, err
	}
	if executor {
		if keeper == nil {
			checkPolicies(kubeconfig)
		}
		return mgr, addExecutor(mgr, config)
	}
	key, err := signingKey(ctx, kubeconfig, namespace)
	if err != nil {
		return nil, err
	}
	return mgr, errors.Join(addControllers(mgr, config, gates, key), addDruidTasks(ctx, mgr, config))
}

// addCommon adds what the operator has in every mode, and the webhook if there is a keeper of its certificate.
func addCommon(ctx context.Context, mgr ctrl.Manager, keeper *webhookcert.Keeper) error {
	err := errors.Join(
		crmetrics.Registry.Register(buildinfo.New()),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
		etcdtasks.Index(ctx, mgr.GetFieldIndexer()),
	)
	if err != nil || keeper == nil {
		return err
	}
	return addWebhook(mgr, keeper)
}

// clientConfig is how the operator connects to the API server.
func clientConfig(config *configv1alpha1.OperatorConfiguration) (*rest.Config, error) {
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	kubeconfig.QPS, kubeconfig.Burst = config.ClientConnection.QPS, config.ClientConnection.Burst
	return kubeconfig, nil
}

// checkEtcds returns an error if the served Etcd cannot hold the status that the operator writes.
func checkEtcds(ctx context.Context, kubeconfig *rest.Config) error {
	api, err := discovery.NewDiscoveryClientForConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return servedcrd.CheckEtcdStatus(ctx, api.OpenAPIV3())
}

func managerOptions(config *configv1alpha1.OperatorConfiguration) (ctrl.Options, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return ctrl.Options{}, fmt.Errorf("building the scheme: %w", err)
		}
	}
	cacheOptions, err := cacheOptions(config.Namespaces)
	if err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions,
		Metrics:                       metricsOptions(config.Server),
		HealthProbeBindAddress:        config.Server.HealthBindAddress,
		PprofBindAddress:              config.Server.PprofBindAddress,
		LeaderElection:                *config.LeaderElection.Enabled,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       config.LeaderElection.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &config.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &config.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &config.LeaderElection.RetryPeriod.Duration,
	}, nil
}

// cacheOptions cache only the objects of Etcds, including those of etcd-druid, and the surroundings of their pods; in some
// namespaces, or in all if none are given.
func cacheOptions(namespaces []string) (cache.Options, error) {
	managed, err := labels.NewRequirement(v1alpha1.LabelManagedBy, selection.In, []string{v1alpha1.ManagedBy, v1alpha1.ManagedByDruid})
	if err != nil {
		return cache.Options{}, fmt.Errorf("building a label selector: %w", err)
	}
	ours := cache.ByObject{Label: labels.NewSelector().Add(*managed)}
	lists := &resourceLists{}
	objects := map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: ours.Label, Transform: keep(trimmedPod)}, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours,
		&v1alpha1.EtcdOperatorTask{}:    {Transform: keep(trimmedTask)},
		&appsv1.StatefulSet{}:           {Label: ours.Label, Transform: keep(lists.statefulSet)},
		&policyv1.PodDisruptionBudget{}: ours, &coordinationv1.Lease{}: ours,
		&corev1.ServiceAccount{}: ours, &rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours,
	}
	addSurroundings(objects, lists)
	options := cache.Options{DefaultTransform: slim, ByObject: objects}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options, nil
}

func addControllers(mgr ctrl.Manager, config *configv1alpha1.OperatorConfiguration, gates featuregate.FeatureGate, key ed25519.PrivateKey) error {
	now, rules := clock.RealClock{}, policy.New(config)
	agents := agents{live: mgr.GetAPIReader(), key: key, clock: now, api: config.AgentAPI}
	dialer := etcdclient.NewPool(now.Now)
	credentials := &certificates.Credentials{Reader: mgr.GetAPIReader(), Clock: now}
	observer := observe.New(dialer, now, observe.WithCredentials(credentials), observe.WithSurroundings(mgr.GetCache()))
	locker := &lock.Locks{}
	registry := newRegistry(mgr.GetClient(), mgr.GetAPIReader(), dependencies{observer: observer, dialer: dialer, credentials: credentials, clock: now, images: config.Images, agents: agents, rules: rules, podUpdates: config.PodUpdatePolicy})
	return errors.Join(
		(&etcd.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Observer: observer, Locker: locker, Clock: now,
			Dialer: dialer, Credentials: credentials, Recorder: mgr.GetEventRecorder("etcd-foreman"),
			Images: config.Images, QuorumAwareUpdates: gates.Enabled(configv1alpha1.QuorumAwareUpdatesWithOnDelete), AdoptFromDruid: gates.Enabled(configv1alpha1.AdoptFromDruid), AgentTrust: agents.trust, Allowed: rules.Etcd,
		}).Setup(mgr, config.Controllers.Etcd.ConcurrentSyncs),
		(&upkeep.Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("etcd-foreman"), Clock: now, Events: compactionmetrics.NewEvents(crmetrics.Registry),
		}).Setup(mgr, config.Controllers.Etcd.ConcurrentSyncs),
		(&rollouts.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: now, Metrics: rollouts.NewMetrics(crmetrics.Registry)}).Setup(mgr, config.Controllers.Rollout.ConcurrentSyncs),
		(&engine.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Registry: registry, Locker: locker,
			Recorder: mgr.GetEventRecorder("etcd-foreman"), Metrics: engine.NewMetrics(crmetrics.Registry), Clock: now,
		}).Setup(mgr, config.Controllers.Task.ConcurrentSyncs),
		crmetrics.Registry.Register(&metrics.Collector{Cache: mgr.GetCache(), Active: mgr.Elected()}),
	)
}
