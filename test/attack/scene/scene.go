// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package scene is the world in which attacks run: namespaces, users and objects.
package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	poll = 250 * time.Millisecond
	// Patience is for what has to happen on a machine with a build in the background.
	Patience = 3 * time.Minute
	// Answer is for what the operator has to do.
	Answer = 45 * time.Second
)

// Scene is the cluster under attack.
type Scene struct {
	config *rest.Config
	// Admin is the administrator of the cluster.
	Admin client.Client
	// roles of users: the rules of ClusterRoles by name.
	roles map[string][]rbacv1.PolicyRule
	// Healthy is a healthy Etcd.
	Healthy client.ObjectKey
	// Watch is for how long something is watched that must not happen.
	Watch time.Duration
}

// New returns the cluster of a kubeconfig, with the roles of users in a file, and a healthy Etcd as NAMESPACE/NAME.
func New(config *rest.Config, roles, healthy string, watch time.Duration) (*Scene, error) {
	// The limiter of the client refuses what would exceed a deadline, which is then no answer of the API server.
	config.QPS = -1
	s := &Scene{config: config, Watch: watch, roles: map[string][]rbacv1.PolicyRule{}}
	var ok bool
	if s.Healthy.Namespace, s.Healthy.Name, ok = strings.Cut(healthy, "/"); !ok {
		return nil, fmt.Errorf("-healthy is %q, not NAMESPACE/NAME", healthy)
	}
	var err error
	if s.Admin, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	data, err := os.ReadFile(roles)
	if err != nil {
		return nil, fmt.Errorf("reading the roles of users: %w", err)
	}
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		role := rbacv1.ClusterRole{}
		if err := documents.Decode(&role); errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the roles of users: %w", err)
		}
		s.roles[role.Name] = role.Rules
	}
}

// Tenant is a namespace in which a group of attacks runs.
type Tenant struct {
	*Scene
	Namespace string
	users     map[string]client.Client
}

// Tenant makes a new namespace for a group, and its users.
func (s *Scene) Tenant(ctx context.Context, group string) (*Tenant, error) {
	t := &Tenant{Scene: s, Namespace: "attack-" + group, users: map[string]client.Client{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}}
	// Left over by an interrupted run.
	if err := client.IgnoreNotFound(s.Admin.Delete(ctx, namespace.DeepCopy())); err != nil {
		return nil, fmt.Errorf("removing namespace %s: %w", t.Namespace, err)
	}
	err := Until(ctx, Patience, func(ctx context.Context) (bool, error) {
		err := s.Admin.Create(ctx, namespace.DeepCopy())
		return err == nil, Ignore(err, apierrors.IsAlreadyExists, apierrors.IsForbidden)
	})
	if err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", t.Namespace, err)
	}
	for _, user := range []string{Operate, Dangerous, Author, Owner} {
		if t.users[user], err = s.In(ctx, t.Namespace, user); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Leave removes the namespace, and does not wait until it is gone.
func (t *Tenant) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = t.Admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})
}

// The users, by their rights in the namespace.
const (
	// Operate runs the tasks that keep quorum and data.
	Operate = "etcd-foreman-operate"
	// Dangerous also runs the other types, and may override guards.
	Dangerous = "etcd-foreman-dangerous"
	// Author writes Etcds.
	Author = "author of Etcds"
	// Owner may write everything in the namespace but Etcds and tasks, and their status.
	Owner = "administrator of the namespace"
)

func (s *Scene) rules(user string) []rbacv1.PolicyRule {
	switch user {
	case Author:
		return []rbacv1.PolicyRule{{APIGroups: []string{"druid.gardener.cloud"}, Resources: []string{"etcds"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}}}
	case Owner:
		return []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	case Dangerous:
		return append(s.roles[Operate], s.roles[Dangerous]...)
	}
	return s.roles[user]
}

// As returns a client of a user who has the rights of its name in the namespace, and none elsewhere.
func (t *Tenant) As(user string) client.Client { return t.users[user] }

// In makes a client of a user who has the rights of its name in a namespace, and none elsewhere.
func (s *Scene) In(ctx context.Context, namespace, user string) (client.Client, error) {
	rules := s.rules(user)
	if len(rules) == 0 {
		return nil, fmt.Errorf("there is no role %s", user)
	}
	name := "attack-" + strings.ReplaceAll(strings.ToLower(user), " ", "-")
	at := metav1.ObjectMeta{Namespace: namespace, Name: name}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: at, Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name + "@" + namespace}},
		},
	} {
		if err := s.Admin.Create(ctx, o); Ignore(err, apierrors.IsAlreadyExists) != nil {
			return nil, fmt.Errorf("giving %s its rights: %w", user, err)
		}
	}
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name + "@" + namespace, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting as %s: %w", user, err)
	}
	list := NewList("EtcdList")
	err = Until(ctx, Patience, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, list, client.InNamespace(namespace))
		return err == nil, Ignore(err, apierrors.IsForbidden)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the rights of %s: %w", user, err)
	}
	return c, nil
}

// Until waits until something is done.
func Until(ctx context.Context, limit time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, poll, limit, true, done)
}

// Within reports whether something happens within a time.
func Within(ctx context.Context, limit time.Duration, happens wait.ConditionWithContextFunc) (bool, error) {
	err := Until(ctx, limit, happens)
	if ctx.Err() == nil && wait.Interrupted(err) {
		return false, nil
	}
	return err == nil, err
}

// Ignore returns an error unless it is of a kind that is expected.
func Ignore(err error, kinds ...func(error) bool) error {
	for _, is := range kinds {
		if is(err) {
			return nil
		}
	}
	return err
}
