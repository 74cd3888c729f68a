// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The operator's ServiceAccount, and the groups that Kubernetes assigns to it.
const operatorNamespace = "etcd-foreman-system"

var operator = rest.ImpersonationConfig{
	UserName: "system:serviceaccount:" + operatorNamespace + ":etcd-foreman",
	Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + operatorNamespace, "system:authenticated"},
}

// WithRoles also creates the operator's namespace, ServiceAccount and roles.
func WithRoles() Option {
	return Option{started: func(e *Env) error {
		e.roles = true
		return e.installRoles(context.Background())
	}}
}

// installRoles creates the roles as they are deployed. Those for tasks are installed with the admission policies.
func (e *Env) installRoles(ctx context.Context) error {
	if err := e.Install(ctx, "manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_bindings.yaml", "rbac/user_roles.yaml"); err != nil {
		return err
	}
	return e.awaitRoles(ctx)
}

// WithManifests creates the objects in files of config/ at the start.
func WithManifests(files ...string) Option {
	return Option{started: func(e *Env) error { return e.Install(context.Background(), files...) }}
}

// Install creates the objects in files of config/.
func (e *Env) Install(ctx context.Context, files ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for _, name := range files {
		objects, err := readObjects(filepath.Join(root, "config", name))
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := e.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

// awaitRoles waits until the API server grants the last created role: it watches roles and their bindings.
func (e *Env) awaitRoles(ctx context.Context) error {
	operator, err := kubernetes.NewForConfig(e.AsOperator())
	if err != nil {
		return fmt.Errorf("making a client of the operator: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, machine.Patience())
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for _, a := range []authorizationv1.ResourceAttributes{
			{Verb: "list", Resource: "pods"},
			{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: operatorNamespace},
		} {
			review, err := operator.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
			}, metav1.CreateOptions{})
			if err != nil || !review.Status.Allowed {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the operator's roles are in force: %w", err)
	}
	return nil
}

// AsOperator returns a Config with the permissions of the operator's ServiceAccount.
func (e *Env) AsOperator() *rest.Config {
	c := rest.CopyConfig(e.Config)
	c.Impersonate = operator
	return c
}

// ForOperator returns what an operator in the process of a test uses: with the operator's permissions, if there are its roles.
func (e *Env) ForOperator() *rest.Config {
	if e.roles {
		return e.AsOperator()
	}
	return rest.CopyConfig(e.Config)
}

// AsUser returns a Config of a new user with a certificate and no permissions.
func (e *Env) AsUser(name string) (*rest.Config, error) {
	user, err := e.server.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		return nil, fmt.Errorf("making user %s: %w", name, err)
	}
	return user.Config(), nil
}

// OperatorKubeconfig returns a kubeconfig file with the permissions of the operator's ServiceAccount.
func (e *Env) OperatorKubeconfig() ([]byte, error) {
	c, err := clientcmd.Load(e.server.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's kubeconfig: %w", err)
	}
	for _, user := range c.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = operator.UserName, operator.Groups
	}
	data, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return data, nil
}
