// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var dangerousTypes = []string{"CopyBackups", "QuorumLossRecovery", "RecreateRollout"}

// What the API server has to refuse, by the admission policies and the schema.
var rightsAttacks = []attack{
	{5, "override QuorumKept", dangerous, "Invalid", overrideQuorumKept},
	{22, "create tasks of the dangerous types, also by apply", operate, "Forbidden", createDangerous},
	{22, "create a rollout that overrides guards; add and resume one by an update", operate, "Forbidden", override},
	{22, "resume a suspended recovery of somebody else", operate, "Forbidden", resume},
	{22, "turn a task into one of a dangerous type", operate, "Invalid or Forbidden", turn},
	{22, "create a task for an Etcd of another namespace", dangerous, "Forbidden", reachOver},
	{25, "name Secrets of another namespace in an Etcd", author, "Forbidden", foreignSecret},
}

// all says what each of several attempts came to.
func all(attempts map[string]error) finding {
	var said []string
	ok := true
	for name, err := range attempts {
		how, good := refused(err)
		ok = ok && good
		said = append(said, name+": "+how)
	}
	return finding{strings.Join(sorted(said), "; "), ok}
}

func overrideQuorumKept(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, dangerous)
	if err != nil {
		return finding{}, err
	}
	task := t.task("quorum-kept", "QuorumAwareRollout", "main", fields{"overrideGuards": []any{"QuorumKept"}})
	return all(map[string]error{"create": c.Create(ctx, task)}), nil
}

func createDangerous(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	attempts := map[string]error{}
	for _, taskType := range dangerousTypes {
		name := strings.ToLower(taskType)
		attempts[taskType] = c.Create(ctx, t.task(name, taskType, "main", fields{"suspend": true}))
		attempts[taskType+" by apply"] = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(t.task(name+"-applied", taskType, "main", fields{"suspend": true})), client.FieldOwner("attack"))
	}
	return all(attempts), nil
}

// change patches an object as a user.
func change(ctx context.Context, c client.Client, o *unstructured.Unstructured, patch string) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func override(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	d, err := t.as(ctx, dangerous)
	if err != nil {
		return finding{}, err
	}
	overriding := fields{"overrideGuards": []any{"UnreadyConfirmed"}, "suspend": true}
	attempts := map[string]error{"create": c.Create(ctx, t.task("override", "QuorumAwareRollout", "main", overriding))}
	plain := t.task("plain", "QuorumAwareRollout", "main", fields{"suspend": true})
	if err := c.Create(ctx, plain); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	attempts["add"] = change(ctx, c, plain, `{"spec":{"overrideGuards":["UnreadyConfirmed"]}}`)
	foreign := t.task("foreign", "QuorumAwareRollout", "main", overriding)
	if err := d.Create(ctx, foreign); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	attempts["resume"] = change(ctx, c, foreign, `{"spec":{"suspend":false}}`)
	return all(attempts), nil
}

func resume(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	d, err := t.as(ctx, dangerous)
	if err != nil {
		return finding{}, err
	}
	task := t.task("approval", "QuorumLossRecovery", "main", fields{"suspend": true})
	if err := d.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	return all(map[string]error{
		"suspend: false":   change(ctx, c, task, `{"spec":{"suspend":false}}`),
		"suspend: removed": change(ctx, c, task, `{"spec":{"suspend":null}}`),
	}), nil
}

func turn(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	task := t.task("harmless", "OnDemandSnapshot", "main", fields{"suspend": true})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	return all(map[string]error{
		"type":   change(ctx, c, task, `{"spec":{"type":"QuorumLossRecovery"}}`),
		"config": change(ctx, c, task, `{"spec":{"config":"type: full"}}`),
		"status": c.Status().Patch(ctx, task.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"InProgress"}}`))),
	}), nil
}

func reachOver(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, dangerous)
	if err != nil {
		return finding{}, err
	}
	task := t.task("over", "QuorumAwareRollout", t.healthy.Name, fields{"ownerEtcdReference": fields{"name": t.healthy.Name, "namespace": t.healthy.Namespace}})
	return all(map[string]error{"create": c.Create(ctx, task)}), nil
}

func foreignSecret(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	secret := fields{"name": "etcd-foreman-signing-key", "namespace": "etcd-foreman-system"}
	ca := fields{"name": secret["name"], "namespace": secret["namespace"], "dataKey": "ca.crt"}
	return all(map[string]error{
		"store": c.Create(ctx, t.etcd("store", fields{"backup": fields{"store": fields{"provider": "S3", "container": "bucket", "secretRef": secret}}})),
		"TLS": c.Create(ctx, t.etcd("tls", fields{"etcd": fields{"clientUrlTls": fields{
			"tlsCASecretRef": ca, "serverTLSSecretRef": secret, "clientTLSSecretRef": secret,
		}}})),
	}), nil
}
