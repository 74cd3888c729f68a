// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

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
	// patience is for what has to happen on a machine with a build in the background.
	patience = 3 * time.Minute
	// answer is for what the operator has to do.
	answer = 45 * time.Second
)

// scene is the cluster under attack.
type scene struct {
	config *rest.Config
	// admin is the administrator of the cluster.
	admin client.Client
	// roles of users: the rules of ClusterRoles by name.
	roles map[string][]rbacv1.PolicyRule
	// healthy is a healthy Etcd.
	healthy client.ObjectKey
	// watch is for how long something is watched that must not happen.
	watch time.Duration
}

func newScene(config *rest.Config, o options) (*scene, error) {
	// The limiter of the client refuses what would exceed a deadline, which is then no answer of the API server.
	config.QPS = -1
	s := &scene{config: config, watch: o.watch, roles: map[string][]rbacv1.PolicyRule{}}
	var ok bool
	if s.healthy.Namespace, s.healthy.Name, ok = strings.Cut(o.healthy, "/"); !ok {
		return nil, fmt.Errorf("-healthy is %q, not NAMESPACE/NAME", o.healthy)
	}
	var err error
	if s.admin, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	data, err := os.ReadFile(o.roles)
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

// tenant is a namespace in which a group of attacks runs.
type tenant struct {
	*scene
	namespace string
	users     map[string]client.Client
}

// tenant makes the namespace of a group, anew.
func (s *scene) tenant(ctx context.Context, group string) (*tenant, error) {
	t := &tenant{scene: s, namespace: "attack-" + group, users: map[string]client.Client{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
	// Left over by an interrupted run.
	if err := client.IgnoreNotFound(s.admin.Delete(ctx, namespace.DeepCopy())); err != nil {
		return nil, fmt.Errorf("removing namespace %s: %w", t.namespace, err)
	}
	err := until(ctx, patience, func(ctx context.Context) (bool, error) {
		err := s.admin.Create(ctx, namespace.DeepCopy())
		return err == nil, ignore(err, apierrors.IsAlreadyExists, apierrors.IsForbidden)
	})
	if err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", t.namespace, err)
	}
	return t, nil
}

// leave removes the namespace, and does not wait until it is gone.
func (t *tenant) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = t.admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}})
}

// The users, by their rights in the namespace.
const (
	// operate runs the tasks that keep quorum and data.
	operate = "etcd-foreman-operate"
	// dangerous also runs the other types, and may override guards.
	dangerous = "etcd-foreman-dangerous"
	// author writes Etcds.
	author = "author of Etcds"
	// owner may write everything in the namespace but Etcds and tasks, and their status.
	owner = "administrator of the namespace"
)

func (s *scene) rules(user string) []rbacv1.PolicyRule {
	switch user {
	case author:
		return []rbacv1.PolicyRule{{APIGroups: []string{"druid.gardener.cloud"}, Resources: []string{"etcds"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}}}
	case owner:
		return []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	case dangerous:
		return append(s.roles[operate], s.roles[dangerous]...)
	}
	return s.roles[user]
}

// as returns a client of a user who has the rights of its name in the namespace, and none elsewhere.
func (t *tenant) as(ctx context.Context, user string) (client.Client, error) {
	if c, ok := t.users[user]; ok {
		return c, nil
	}
	c, err := t.in(ctx, t.namespace, user)
	if err == nil {
		t.users[user] = c
	}
	return c, err
}

// in is as, for a user of another namespace.
func (s *scene) in(ctx context.Context, namespace, user string) (client.Client, error) {
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
		if err := s.admin.Create(ctx, o); ignore(err, apierrors.IsAlreadyExists) != nil {
			return nil, fmt.Errorf("giving %s its rights: %w", user, err)
		}
	}
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name + "@" + namespace, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting as %s: %w", user, err)
	}
	list := newList("EtcdList")
	err = until(ctx, patience, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, list, client.InNamespace(namespace))
		return err == nil, ignore(err, apierrors.IsForbidden)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the rights of %s: %w", user, err)
	}
	return c, nil
}

// until waits until something is done.
func until(ctx context.Context, limit time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, poll, limit, true, done)
}

// within reports whether something happens within a time.
func within(ctx context.Context, limit time.Duration, happens wait.ConditionWithContextFunc) (bool, error) {
	err := until(ctx, limit, happens)
	if ctx.Err() == nil && wait.Interrupted(err) {
		return false, nil
	}
	return err == nil, err
}

// ignore returns an error unless it is of a kind that is expected.
func ignore(err error, kinds ...func(error) bool) error {
	for _, is := range kinds {
		if is(err) {
			return nil
		}
	}
	return err
}
