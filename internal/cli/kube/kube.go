// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package kube is what every verb of the plugin shares: the usual flags of kubectl, the clients that they make,
// the cluster's objects by name, and errors in one sentence with an exit code.
package kube

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kube is the cluster that a command speaks to, and the terminal that it speaks from.
type Kube struct {
	genericiooptions.IOStreams
	// Flags are the usual flags of kubectl.
	Flags *genericclioptions.ConfigFlags
	// AllNamespaces is the flag of that name, for the verbs that have it.
	AllNamespaces bool
	Clock         clock.WithTicker
	// Location that times are told in.
	Location *time.Location
	// Size of the terminal that the output goes to, in columns and rows; ok is false where it is none.
	Size func() (width, height int, ok bool)
	// Suffix makes names unique.
	Suffix func() string
}

// New makes a Kube for the process's own streams.
func New(streams genericiooptions.IOStreams) *Kube {
	k := &Kube{
		IOStreams: streams, Flags: genericclioptions.NewConfigFlags(true), Clock: clock.RealClock{}, Location: time.Local,
		Suffix: func() string { return rand.String(5) },
	}
	k.Size = func() (int, int, bool) { return sizeOf(streams.Out) }
	k.Flags.WrapConfigFn = func(c *rest.Config) *rest.Config { return patient(c, streams.ErrOut) }
	return k
}

// Width of the terminal in columns; 0 where the output goes elsewhere.
func (k *Kube) Width() int {
	width, _, ok := k.Size()
	if !ok {
		return 0
	}
	return width
}

// Scheme has the kinds that the plugin reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			// Only a mistake in this list makes it fail.
			panic(err)
		}
	}
	return scheme
}

// mapper knows the kinds of the scheme, so that no command begins with asking the API server what it has.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("EtcdOperatorTask"), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	for _, kind := range []string{"Pod", "Event", "Secret", "PersistentVolumeClaim"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Namespace", "Node", "PersistentVolume"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	return m
}

// Config of the API server that the flags choose.
func (k *Kube) Config() (*rest.Config, error) {
	if err := k.chosen(); err != nil {
		return nil, err
	}
	config, err := k.Flags.ToRESTConfig()
	if err != nil {
		return nil, Usage("%v", err)
	}
	return config, nil
}

// Client for the API server that the flags choose.
func (k *Kube) Client() (client.WithWatch, error) {
	config, err := k.Config()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: mapper()})
	if err != nil {
		return nil, Usage("making a client for %s: %v", config.Host, err)
	}
	return c, nil
}

// Namespace that the flags and the kubeconfig choose; empty with --all-namespaces.
func (k *Kube) Namespace() (string, error) {
	if k.AllNamespaces {
		return "", nil
	}
	namespace, _, err := k.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", Usage("%v", err)
	}
	return namespace, nil
}

// chosen refuses to guess which cluster is meant.
func (k *Kube) chosen() error {
	config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return Usage("reading the kubeconfig: %v", err)
	}
	name := *k.Flags.Context
	if _, ok := config.Contexts[name]; name != "" && !ok {
		return Usage("the kubeconfig has no context %q: it has %s", name, quoted(config.Contexts))
	}
	if name == "" && config.CurrentContext == "" && len(config.Contexts) > 0 && *k.Flags.APIServer == "" {
		return Usage("no context of the kubeconfig is the current one: choose one of %s with --context", quoted(config.Contexts))
	}
	return nil
}

// Etcd reads an Etcd.
func (k *Kube) Etcd(ctx context.Context, c client.Reader, namespace, name string) (*v1alpha1.Etcd, error) {
	etcd := &v1alpha1.Etcd{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, etcd); IsObjectNotFound(err) {
		return nil, Failure("there is no Etcd %q in namespace %s", name, namespace)
	} else if err != nil {
		return nil, fmt.Errorf("reading Etcd %s/%s: %w", namespace, name, err)
	}
	return etcd, nil
}

// Tasks are the tasks of an Etcd in no order; those of every Etcd where its name is empty.
func (k *Kube) Tasks(ctx context.Context, c client.Reader, namespace, etcd string) ([]*v1alpha1.EtcdOperatorTask, error) {
	list := &v1alpha1.EtcdOperatorTaskList{}
	options := []client.ListOption{client.InNamespace(namespace)}
	if etcd != "" {
		options = append(options, client.MatchingFields{"spec.ownerEtcdReference.name": etcd})
	}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	all := make([]*v1alpha1.EtcdOperatorTask, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}
