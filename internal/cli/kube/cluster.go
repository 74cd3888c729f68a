// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a client for the API server and the namespace that the flags choose.
type Cluster struct {
	client.WithWatch
	Config *rest.Config
	// Namespace is empty with --all-namespaces.
	Namespace string
	// Rule is that of the Kube.
	Rule replacer.Rule
}

// Connect makes the client. It sends no request.
func (k *Kube) Connect() (*Cluster, error) {
	config, err := k.config()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: mapper()})
	if err != nil {
		return nil, Usage("making a client for %s: %v", config.Host, err)
	}
	namespace, err := k.Namespace()
	return &Cluster{WithWatch: c, Config: config, Namespace: namespace, Rule: k.Rule}, err
}

// Run returns the RunE of a verb that connects to the cluster. The name is the verb's argument; it is empty if there is
// none.
func (k *Kube) Run(verb func(ctx context.Context, cluster *Cluster, name string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cluster, err := k.Connect()
		if err != nil {
			return err
		}
		return verb(cmd.Context(), cluster, append(args, "")[0])
	}
}

// Raw reads a path of the API server, of so many bytes at most.
func (c *Cluster) Raw(ctx context.Context, path string, limit int64) ([]byte, error) {
	api, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, Usage("making a client for %s: %v", c.Config.Host, err)
	}
	stream, err := api.RESTClient().Get().AbsPath(path).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	return ReadUpTo(stream, limit)
}

// ReadUpTo reads an answer. One that is longer than the limit, in bytes, is an error: a part of it would say something else.
func ReadUpTo(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = Failure("the answer is longer than %s", text.Size(limit))
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Logs returns a function that reads the log of a container or of its previous run.
func (c *Cluster) Logs() (func(ctx context.Context, pod client.ObjectKey, options *corev1.PodLogOptions) (io.ReadCloser, error), error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, Usage("making a client for %s: %v", c.Config.Host, err)
	}
	return func(ctx context.Context, pod client.ObjectKey, options *corev1.PodLogOptions) (io.ReadCloser, error) {
		return clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	}, nil
}

// ServerVersion asks for the version of the API server.
func (c *Cluster) ServerVersion(ctx context.Context) (string, error) {
	api, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return "", Usage("making a client for %s: %v", c.Config.Host, err)
	}
	info, err := api.ServerVersionWithContext(ctx)
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// Etcd reads an Etcd.
func (c *Cluster) Etcd(ctx context.Context, name string) (*v1alpha1.Etcd, error) {
	etcd := &v1alpha1.Etcd{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, etcd); IsObjectNotFound(err) {
		return nil, Failure("there is no Etcd %q in namespace %s", name, c.Namespace)
	} else if err != nil {
		return nil, fmt.Errorf("reading Etcd %s/%s: %w", c.Namespace, name, err)
	}
	return etcd, nil
}

// NamedEtcd reads the Etcd that an argument names.
func (c *Cluster) NamedEtcd(ctx context.Context, arg string) (*v1alpha1.Etcd, error) {
	name, err := EtcdName(arg)
	if err != nil {
		return nil, err
	}
	return c.Etcd(ctx, name)
}

// TasksOf selects the tasks of an Etcd; those of every Etcd if its name is empty.
func (c *Cluster) TasksOf(etcd string) client.ListOption {
	if etcd == "" {
		return client.InNamespace(c.Namespace)
	}
	return etcdtasks.Of(client.ObjectKey{Namespace: c.Namespace, Name: etcd})
}

// Tasks lists the tasks of an Etcd in no order; those of every Etcd if its name is empty.
func (c *Cluster) Tasks(ctx context.Context, etcd string) ([]*v1alpha1.EtcdOperatorTask, error) {
	list := &v1alpha1.EtcdOperatorTaskList{}
	if err := c.List(ctx, list, c.TasksOf(etcd)); err != nil {
		return nil, fmt.Errorf("listing tasks: %w", err)
	}
	all := make([]*v1alpha1.EtcdOperatorTask, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}

// FleetPolicies lists the policies of the fleet by name.
func (c *Cluster) FleetPolicies(ctx context.Context) ([]v1alpha1.EtcdFleetPolicy, error) {
	list := &v1alpha1.EtcdFleetPolicyList{}
	if err := c.List(ctx, list); apierrors.IsNotFound(err) {
		return nil, Failure("the API server has no EtcdFleetPolicies: install config/crd/fleet")
	} else if err != nil {
		return nil, Failure("listing EtcdFleetPolicies: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.EtcdFleetPolicy) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// Task reads a task.
func (c *Cluster) Task(ctx context.Context, name string) (*v1alpha1.EtcdOperatorTask, error) {
	task, err := c.find(ctx, name)
	if err != nil || task != nil {
		return task, err
	}
	if current, err := c.current(ctx, name); err == nil && current != nil {
		return nil, Failure("there is no task %q in namespace %s; the task of the Etcd of that name is %s", name, c.Namespace, current.Name)
	}
	return nil, c.noneOf(Ref{Name: name})
}

// FindTask reads a task; nil if there is none of that name, or if the argument names an Etcd.
func (c *Cluster) FindTask(ctx context.Context, ref Ref) (*v1alpha1.EtcdOperatorTask, error) {
	if ref.Kind == v1alpha1.KindEtcd {
		return nil, nil
	}
	task, err := c.find(ctx, ref.Name)
	if err == nil && task == nil && ref.Kind == v1alpha1.KindEtcdOperatorTask {
		err = c.noneOf(ref)
	}
	return task, err
}

// CurrentTask reads a task, or else the running, next or latest task of the Etcd of that name.
func (c *Cluster) CurrentTask(ctx context.Context, ref Ref) (*v1alpha1.EtcdOperatorTask, error) {
	task, err := c.FindTask(ctx, ref)
	if err == nil && task == nil {
		task, err = c.current(ctx, ref.Name)
	}
	if err != nil || task != nil {
		return task, err
	}
	if _, err := c.Etcd(ctx, ref.Name); err == nil {
		return nil, Failure("Etcd %q in namespace %s has no task", ref.Name, c.Namespace)
	}
	return nil, c.noneOf(ref)
}

func (c *Cluster) noneOf(ref Ref) error {
	return Failure("there is no %s in namespace %s", ref, c.Namespace)
}

// find returns the task of a name; nil if there is none.
func (c *Cluster) find(ctx context.Context, name string) (*v1alpha1.EtcdOperatorTask, error) {
	task := &v1alpha1.EtcdOperatorTask{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, task)
	switch {
	case IsObjectNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading task %s/%s: %w", c.Namespace, name, err)
	}
	return task, nil
}

// current returns the running, next or latest task of an Etcd; nil if it has none.
func (c *Cluster) current(ctx context.Context, etcd string) (*v1alpha1.EtcdOperatorTask, error) {
	all, err := c.Tasks(ctx, etcd)
	if err != nil {
		return nil, err
	}
	return current(all), nil
}

// current returns the running, next or latest of the tasks of an Etcd; nil if there are none.
func current(all []*v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	if len(all) == 0 {
		return nil
	}
	if head := queue.New(all).Head(); head != nil {
		return head
	}
	return slices.MaxFunc(all, queue.Compare)
}
