// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rights attacks the rights of users.
package rights

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var dangerousTypes = []string{"CopyBackups", "QuorumLossRecovery", "RecreateRollout", "Restore"}

// Attacks are what the API server has to refuse, by the admission policies and the schema.
var Attacks = []engine.Attack{
	{Item: 5, What: "override QuorumKept", By: scene.Dangerous, Want: "Invalid", Try: overrideQuorumKept},
	{Item: 22, What: "create tasks of the dangerous types, also by apply", By: scene.Operate, Want: "Forbidden", Try: createDangerous},
	{Item: 22, What: "create a rollout that overrides guards; add and resume one by an update", By: scene.Operate, Want: "Forbidden", Try: override},
	{Item: 22, What: "resume a suspended recovery of somebody else", By: scene.Operate, Want: "Forbidden", Try: resume},
	{Item: 22, What: "turn a task into one of a dangerous type", By: scene.Operate, Want: "Invalid or Forbidden", Try: turn},
	{Item: 22, What: "create a task for an Etcd of another namespace", By: scene.Dangerous, Want: "Forbidden", Try: reachOver},
	{Item: 25, What: "name Secrets of another namespace in an Etcd", By: scene.Author, Want: "Forbidden", Try: foreignSecret},
}

// all says what each of several attempts came to.
func all(attempts map[string]error) engine.Finding {
	var said []string
	ok := true
	for name, err := range attempts {
		how, good := refused(err)
		ok = ok && good
		said = append(said, name+": "+how)
	}
	return engine.Found(strings.Join(slices.Sorted(slices.Values(said)), "; "), ok)
}

// refused says how something was refused, or that it was not.
func refused(err error) (string, bool) {
	switch {
	case err == nil:
		return "accepted", false
	case apierrors.IsForbidden(err):
		return "Forbidden", true
	case apierrors.IsInvalid(err):
		return "Invalid", true
	}
	return err.Error(), false
}

func overrideQuorumKept(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Dangerous)
	task := t.Task("quorum-kept", "QuorumAwareRollout", "main", scene.Fields{"overrideGuards": []any{"QuorumKept"}})
	return all(map[string]error{"create": c.Create(ctx, task)}), nil
}

func createDangerous(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	attempts := map[string]error{}
	for _, taskType := range dangerousTypes {
		name := strings.ToLower(taskType)
		attempts[taskType] = c.Create(ctx, t.Task(name, taskType, "main", scene.Fields{"suspend": true}))
		attempts[taskType+" by apply"] = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(t.Task(name+"-applied", taskType, "main", scene.Fields{"suspend": true})), client.FieldOwner("attack"))
	}
	return all(attempts), nil
}

func override(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	d := t.As(scene.Dangerous)
	overriding := scene.Fields{"overrideGuards": []any{"UnreadyConfirmed"}, "suspend": true}
	attempts := map[string]error{"create": c.Create(ctx, t.Task("override", "QuorumAwareRollout", "main", overriding))}
	plain := t.Task("plain", "QuorumAwareRollout", "main", scene.Fields{"suspend": true})
	if err := c.Create(ctx, plain); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	attempts["add"] = scene.Change(ctx, c, plain, `{"spec":{"overrideGuards":["UnreadyConfirmed"]}}`)
	foreign := t.Task("foreign", "QuorumAwareRollout", "main", overriding)
	if err := d.Create(ctx, foreign); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	attempts["resume"] = scene.Change(ctx, c, foreign, `{"spec":{"suspend":false}}`)
	return all(attempts), nil
}

func resume(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	d := t.As(scene.Dangerous)
	task := t.Task("approval", "QuorumLossRecovery", "main", scene.Fields{"suspend": true})
	if err := d.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	return all(map[string]error{
		"suspend: false":   scene.Change(ctx, c, task, `{"spec":{"suspend":false}}`),
		"suspend: removed": scene.Change(ctx, c, task, `{"spec":{"suspend":null}}`),
	}), nil
}

func turn(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	task := t.Task("harmless", "OnDemandSnapshot", "main", scene.Fields{"suspend": true})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	return all(map[string]error{
		"type":   scene.Change(ctx, c, task, `{"spec":{"type":"QuorumLossRecovery"}}`),
		"config": scene.Change(ctx, c, task, `{"spec":{"config":"type: full"}}`),
		"status": c.Status().Patch(ctx, task.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"InProgress"}}`))),
	}), nil
}

func reachOver(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Dangerous)
	task := t.Task("over", "QuorumAwareRollout", t.Healthy.Name, scene.Fields{"ownerEtcdReference": scene.Fields{"name": t.Healthy.Name, "namespace": t.Healthy.Namespace}})
	return all(map[string]error{"create": c.Create(ctx, task)}), nil
}

func foreignSecret(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Author)
	secret := scene.Fields{"name": "etcd-foreman-signing-key", "namespace": "etcd-foreman-system"}
	ca := scene.Fields{"name": secret["name"], "namespace": secret["namespace"], "dataKey": "ca.crt"}
	return all(map[string]error{
		"store": c.Create(ctx, t.Etcd("store", scene.Fields{"backup": scene.Fields{"store": scene.Fields{"provider": "S3", "container": "bucket", "secretRef": secret}}})),
		"TLS": c.Create(ctx, t.Etcd("tls", scene.Fields{"etcd": scene.Fields{"clientUrlTls": scene.Fields{
			"tlsCASecretRef": ca, "serverTLSSecretRef": secret, "clientTLSSecretRef": secret,
		}}})),
	}), nil
}
