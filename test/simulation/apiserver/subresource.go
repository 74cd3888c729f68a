// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func verbOf(verb, sub string) string {
	if sub == "" {
		return verb
	}
	return verb + " " + sub
}

type subresource struct {
	client *Client
	name   string
}

func (s subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return fmt.Errorf("reading %s: not modeled", s.name)
}

// Create evicts a pod.
func (s subresource) Create(ctx context.Context, o, sub client.Object, _ ...client.SubResourceCreateOption) error {
	eviction, ok := sub.(*policyv1.Eviction)
	if !ok {
		return fmt.Errorf("creating %s: not modeled", s.name)
	}
	verb := "create eviction"
	if eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0 {
		verb = "create eviction (dry run)"
	}
	key := client.ObjectKeyFromObject(o)
	return s.client.write(ctx, verb, o, nil, func(schema.GroupVersionKind) (client.Object, error) {
		return nil, s.client.Server.evict(key, eviction)
	})
}

func (s subresource) Update(ctx context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.client.update(ctx, s.name, o)
}

func (s subresource) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.client.patch(ctx, s.name, o, p)
}

func (s subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return fmt.Errorf("applying %s: not modeled", s.name)
}
