// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version/buildinfo"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=etcd-foreman-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=etcd-foreman-system,resources=events,verbs=create;patch

// leaseName is the name of the leader election Lease.
const leaseName = "etcd-foreman"

// ReconcileTimeout bounds a reconcile, whatever it waits for. An API server answers within a minute, and client-go closes a connection
// whose peer has vanished after 45 seconds, by pings over HTTP/2. A proxy between them that answers pings and never the request would
// otherwise keep a worker, and the lock of an Etcd, for ever.
const ReconcileTimeout = 5 * time.Minute

// Run runs the operator until the context ends.
func Run(ctx context.Context, config *configv1alpha1.OperatorConfiguration) error {
	mgr, err := newManager(ctx, config)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Starting", append(version.Get().KeysAndValues(), "featureGates", config.FeatureGates)...)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// newManager makes a manager with the whole operator, which is ready to start.
func newManager(ctx context.Context, config *configv1alpha1.OperatorConfiguration) (ctrl.Manager, error) {
	kubeconfig, err := clientConfig(config)
	if err != nil {
		return nil, err
	}
	options, err := managerOptions(config)
	if err != nil {
		return nil, err
	}
	namespace := operatorNamespace(config)
	addDruid, err := connectDruid(config, kubeconfig, &options, namespace)
	if err != nil {
		return nil, err
	}
	watch, err := checkDefinitions(ctx, config, kubeconfig)
	if err != nil {
		return nil, err
	}
	d := Dependencies{Namespace: namespace}
	if config.Mode != configv1alpha1.ModeExecutor {
		if d.SigningKey, err = signingKey(ctx, kubeconfig, namespace); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(kubeconfig, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	d = d.Of(mgr)
	d.Clock, d.Registerer, d.Dialer = clock.RealClock{}, crmetrics.Registry, etcdclient.NewPool(clock.RealClock{}.Now)
	o, err := New(config, d)
	if err != nil {
		return nil, err
	}
	return mgr, errors.Join(mgr.Add(watch), addCommon(ctx, mgr), addDruid(mgr), o.Setup(ctx, mgr))
}

// addCommon adds what the operator has in every mode.
func addCommon(ctx context.Context, mgr ctrl.Manager) error {
	return errors.Join(
		crmetrics.Registry.Register(buildinfo.New()),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
		etcdtasks.Index(ctx, mgr.GetFieldIndexer()),
	)
}

// clientConfig returns how the operator connects to the API server.
func clientConfig(config *configv1alpha1.OperatorConfiguration) (*rest.Config, error) {
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	kubeconfig.QPS, kubeconfig.Burst = config.ClientConnection.QPS, config.ClientConnection.Burst
	return kubeconfig, nil
}

// definitions are those that the operator needs. Beside etcd-druid, that of Etcds is etcd-druid's.
func definitions(config *configv1alpha1.OperatorConfiguration) ([]servedcrd.Definition, error) {
	gates, err := configv1alpha1.NewFeatureGate(config.FeatureGates)
	if err != nil {
		return nil, err
	}
	needed := []servedcrd.Definition{{Kind: v1alpha1.KindEtcdOperatorTask, Plural: "etcdoperatortasks", Component: "task",
		Status: reflect.TypeFor[v1alpha1.EtcdOperatorTaskStatus](), Spec: reflect.TypeFor[v1alpha1.EtcdOperatorTaskSpec]()}}
	if config.Mode != configv1alpha1.ModeExecutor {
		needed = append(needed, servedcrd.Definition{Kind: v1alpha1.KindEtcd, Plural: "etcds", Component: "etcd",
			Status: reflect.TypeFor[v1alpha1.EtcdStatus](), Spec: reflect.TypeFor[v1alpha1.EtcdSpec]()})
	}
	if gates.Enabled(configv1alpha1.FleetPolicies) {
		needed = append(needed, servedcrd.Definition{Kind: v1alpha1.KindEtcdFleetPolicy, Plural: "etcdfleetpolicies", Component: "fleet",
			Status: reflect.TypeFor[v1alpha1.EtcdFleetPolicyStatus](), Spec: reflect.TypeFor[v1alpha1.EtcdFleetPolicySpec]()})
	}
	return needed, nil
}

// checkDefinitions returns an error if a served definition cannot hold what the operator reads and writes, or else what keeps checking it.
func checkDefinitions(ctx context.Context, config *configv1alpha1.OperatorConfiguration, kubeconfig *rest.Config) (watch manager.RunnableFunc, err error) {
	needed, err := definitions(config)
	if err != nil {
		return nil, err
	}
	api, err := discovery.NewDiscoveryClientForConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	for _, d := range needed {
		if err := d.Check(ctx, api.OpenAPIV3()); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error { return servedcrd.Watch(ctx, api.OpenAPIV3(), needed...) }, nil
}

func managerOptions(config *configv1alpha1.OperatorConfiguration) (ctrl.Options, error) {
	scheme, err := newScheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	cacheOptions, err := CacheOptions(config.Namespaces...)
	if err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions,
		Controller:                    ctrlconfig.Controller{ReconciliationTimeout: ReconcileTimeout},
		Metrics:                       metricsOptions(config.Server, config.TLS),
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

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, rbacv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// metricsOptions returns how metrics are served: over TLS, to clients that may get /metrics, since they name the Etcds of all tenants.
func metricsOptions(server configv1alpha1.Server, limits configv1alpha1.TLS) metricsserver.Options {
	o := metricsserver.Options{BindAddress: server.MetricsBindAddress}
	if server.InsecureMetrics {
		return o
	}
	o.SecureServing, o.CertDir, o.FilterProvider = true, server.MetricsCertificateDir, filters.WithAuthenticationAndAuthorization
	o.TLSOpts = []func(*tls.Config){limits.Apply}
	return o
}
