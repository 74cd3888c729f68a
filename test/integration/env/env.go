// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package env gives integration tests a real API server: kube-apiserver and its etcd, with the project's
// CRDs and admission policies, and optionally a real kube-controller-manager that runs the
// StatefulSet, disruption and garbage-collector controllers. There is no kubelet and no node: Kubelet
// simulates both.
//
// KUBEBUILDER_ASSETS names the folder of the binaries; "make test" sets it.
package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Env is a running API server.
type Env struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Scheme has the types of Kubernetes and this project.
	Scheme *runtime.Scheme
	// Client reads from the API server, not from a cache.
	Client client.WithWatch

	assets            string
	featureGates      string
	server            *envtest.Environment
	controllerManager *controllerManager
	programs          *Programs
	// keeps: others use the programs, too.
	keeps bool
	// roles: the operator's roles are there.
	roles bool
}

// Option changes what Main starts.
type Option struct {
	// configure changes the API server before it starts, and configureEtcd its etcd; started runs after its start.
	configure     func(*envtest.APIServer)
	configureEtcd func(*envtest.Etcd)
	started       func(*Env) error
	// featureGates are passed to the API server and the kube-controller-manager.
	featureGates string
	// withoutCRDs leaves the installation of CRDs to the tests.
	withoutCRDs bool
	programs    *Programs
}

// WithoutCRDs leaves the installation of CRDs to the tests, and installs no admission policies.
func WithoutCRDs() Option { return Option{withoutCRDs: true} }

// WithPrograms has several Envs build a program once. They do not remove it when they stop.
func WithPrograms(p *Programs) Option { return Option{programs: p} }

// WithAudit has the API server write the metadata of each request to a file.
func WithAudit(policy, log string) Option {
	return Option{configure: func(server *envtest.APIServer) {
		server.Configure().Set("audit-policy-file", policy).Set("audit-log-path", log).Set("audit-log-mode", "blocking-strict")
	}}
}

// WithSpace gives the API server's etcd a quota, in bytes, in place of its default of 2 GiB.
func WithSpace(quota int64) Option {
	return Option{configureEtcd: func(etcd *envtest.Etcd) { etcd.Configure().Set("quota-backend-bytes", strconv.FormatInt(quota, 10)) }}
}

// WithFeatureGates sets feature gates of Kubernetes, "A=true,B=false".
func WithFeatureGates(gates string) Option {
	return Option{featureGates: gates, configure: func(server *envtest.APIServer) { server.Configure().Append("feature-gates", gates) }}
}

// WithControllerManager also starts a kube-controller-manager.
func WithControllerManager() Option { return Option{started: (*Env).StartControllerManager} }

// WithAdmissionPlugins enables admission plugins of the API server that are off by default.
func WithAdmissionPlugins(names ...string) Option {
	return Option{configure: func(server *envtest.APIServer) { server.Configure().Append("enable-admission-plugins", names...) }}
}

// Main is the body of a TestMain: it starts an Env, hands it to the tests through into, runs them, and
// stops everything. It returns the exit code.
func Main(m *testing.M, into **Env, options ...Option) int {
	// Log has the output of each test.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	e, err := Start(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the test environment:", err)
		return 1
	}
	*into = e
	code := m.Run()
	if err := e.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the test environment:", err)
		return 1
	}
	return code
}

// Start starts an Env. The caller must stop it.
func Start(options ...Option) (*Env, error) {
	assets := os.Getenv(machine.AssetsVariable)
	if assets == "" {
		return nil, fmt.Errorf("%s is not set: run the tests with \"make test\", or set it to a folder with kube-apiserver, etcd and kube-controller-manager", machine.AssetsVariable)
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	server := &envtest.Environment{
		Scheme:                   scheme,
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        crdPaths(filepath.Join(root, "config", "crd")),
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: machine.Patience(),
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: machine.Patience()},
	}
	// The default has room for 254 Services.
	server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	for _, option := range options {
		if option.withoutCRDs {
			server.CRDDirectoryPaths = nil
		}
		if option.configure != nil {
			option.configure(server.ControlPlane.GetAPIServer())
		}
		if option.configureEtcd != nil {
			server.ControlPlane.Etcd = &envtest.Etcd{}
			option.configureEtcd(server.ControlPlane.Etcd)
		}
	}
	config, err := server.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the API server: %w", err), server.Stop())
	}
	e := &Env{Config: config, Scheme: scheme, assets: assets, server: server, programs: &Programs{}}
	for _, option := range options {
		e.featureGates += option.featureGates
		if option.programs != nil {
			e.programs, e.keeps = option.programs, true
		}
	}
	if err := e.complete(filepath.Join(root, "config", "admission"), options); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// crdPaths returns the folders of the components of config/crd.
func crdPaths(folder string) []string {
	var paths []string
	for _, component := range []string{"etcd", "task", "copybackupstask", "opstask", "fleet"} {
		paths = append(paths, filepath.Join(folder, component))
	}
	return paths
}

func (e *Env) complete(policies string, options []Option) error {
	var err error
	if e.Client, err = client.NewWithWatch(e.Config, client.Options{Scheme: e.Scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	// Policies are about the types of the CRDs.
	if !slices.ContainsFunc(options, func(o Option) bool { return o.withoutCRDs }) {
		if err := e.installPolicies(policies); err != nil {
			return err
		}
	}
	for _, option := range options {
		if option.started == nil {
			continue
		}
		if err := option.started(e); err != nil {
			return err
		}
	}
	return nil
}

// Assets returns the folder of the binaries.
func (e *Env) Assets() string { return e.assets }

// Kubeconfig returns the kubeconfig of an administrator.
func (e *Env) Kubeconfig() []byte { return e.server.KubeConfig }

// Stop stops everything that was started.
func (e *Env) Stop() error {
	err := errors.Join(e.controllerManager.stop(), e.server.Stop())
	if !e.keeps {
		err = errors.Join(err, e.programs.Remove())
	}
	return err
}

// Namespace creates a namespace for one test. It is not removed: no controller here would empty it, and the API server
// ends with the tests.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 40)] + "-"}}
	if err := e.Client.Create(context.Background(), ns); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return ns.Name
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of Kubernetes: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of %s: %w", v1alpha1.GroupVersion, err)
	}
	return scheme, nil
}

// moduleRoot returns the nearest parent folder with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("reading the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in any folder above: run the tests inside the repository")
		}
		dir = parent
	}
}
