// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Request is what a client asks for.
type Request struct {
	Verb, Kind string
	Key        types.NamespacedName
	// Writes: it may change something. Cached: it is answered by a cache.
	Writes, Cached bool
}

func (r Request) String() string {
	s := r.Verb + " " + r.Kind
	if r.Key.Name != "" {
		s += " " + r.Key.Name
	}
	if r.Cached {
		s += " (cache)"
	}
	return s
}

// Client is a client of a Server. It reads from a Table: from the server itself, or from a cache.
type Client struct {
	Server *Server
	Reads  *Table
	// Through carries a request out by calling do, or does something else.
	Through func(ctx context.Context, r Request, do func() error) error
}

var _ client.Client = (*Client)(nil)

// Direct returns a client that reads from the server itself, and whose requests are carried out at once.
func (s *Server) Direct() *Client {
	return &Client{Server: s, Reads: s.Live(), Through: func(_ context.Context, _ Request, do func() error) error { return do() }}
}

// send carries out a write with an object as it is now: it may be carried out when the caller does not wait any more, and has changed the object.
func (c *Client) send(ctx context.Context, verb string, o, into client.Object, do func(schema.GroupVersionKind, []byte) (client.Object, error)) error {
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding a %T: %w", o, err)
	}
	return c.write(ctx, verb, o, into, func(kind schema.GroupVersionKind) (client.Object, error) { return do(kind, body) })
}

// write carries out a write, and gives the object the content that is stored then.
func (c *Client) write(ctx context.Context, verb string, o, into client.Object, do func(schema.GroupVersionKind) (client.Object, error)) error {
	kind, err := c.Server.kindOf(o)
	if err != nil {
		return err
	}
	var stored client.Object
	err = c.Through(ctx, Request{Verb: verb, Kind: kind.Kind, Key: client.ObjectKeyFromObject(o), Writes: true}, func() error {
		result, err := do(kind)
		stored = result
		return err
	})
	if err != nil || into == nil || stored == nil {
		return err
	}
	return fill(into, stored, false)
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	kind, err := c.Server.kindOf(into)
	if err != nil {
		return err
	}
	var found client.Object
	if err := c.Through(ctx, Request{Verb: "get", Kind: kind.Kind, Key: key, Cached: c.cached()}, func() error {
		found = c.Reads.Find(kind.Kind, key)
		return nil
	}); err != nil {
		return err
	}
	if found == nil {
		return apierrors.NewNotFound(resource(kind.Kind), key.Name)
	}
	return fill(into, found, ptr.Deref((&client.GetOptions{}).ApplyOptions(options).UnsafeDisableDeepCopy, false))
}

// List implements client.Reader.
func (c *Client) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	kind, err := c.Server.kindOf(into)
	if err != nil {
		return err
	}
	var found []client.Object
	of, given := strings.TrimSuffix(kind.Kind, "List"), (&client.ListOptions{}).ApplyOptions(options)
	if err := c.Through(ctx, Request{Verb: "list", Kind: of, Key: types.NamespacedName{Namespace: given.Namespace}, Cached: c.cached()}, func() error {
		found = c.Reads.All(of)
		return nil
	}); err != nil {
		return err
	}
	return c.Server.fillList(into, of, found, given)
}

func (c *Client) cached() bool { return c.Reads != &c.Server.table }

// Create implements client.Writer.
func (c *Client) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	return c.send(ctx, "create", o, o, func(kind schema.GroupVersionKind, body []byte) (client.Object, error) {
		if kind.Kind == "SelfSubjectReview" {
			return &authenticationv1.SelfSubjectReview{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.Server.now().Truncate(time.Second))}}, nil
		}
		return c.Server.create(kind, body)
	})
}

// Update implements client.Writer.
func (c *Client) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	return c.update(ctx, "", o)
}

func (c *Client) update(ctx context.Context, sub string, o client.Object) error {
	key := client.ObjectKeyFromObject(o)
	return c.send(ctx, verbOf("update", sub), o, o, func(kind schema.GroupVersionKind, body []byte) (client.Object, error) {
		return c.Server.change(kind, key, sub, func(client.Object) (client.Object, error) { return c.Server.decode(kind, body) })
	})
}

// Patch implements client.Writer.
func (c *Client) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.patch(ctx, "", o, p)
}

func (c *Client) patch(ctx context.Context, sub string, o client.Object, p client.Patch) error {
	change, err := p.Data(o)
	if err != nil {
		return fmt.Errorf("making a patch: %w", err)
	}
	key := client.ObjectKeyFromObject(o)
	return c.write(ctx, verbOf("patch", sub), o, o, func(kind schema.GroupVersionKind) (client.Object, error) {
		return c.Server.change(kind, key, sub, func(live client.Object) (client.Object, error) { return c.Server.patch(kind, live, p.Type(), change) })
	})
}

// Apply implements client.Writer.
func (c *Client) Apply(ctx context.Context, config runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	encoded, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encoding what is applied: %w", err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(encoded); err != nil {
		return fmt.Errorf("decoding what is applied: %w", err)
	}
	key := client.ObjectKeyFromObject(o)
	return c.send(ctx, "apply", o, nil, func(kind schema.GroupVersionKind, body []byte) (client.Object, error) {
		if c.Server.table.Find(kind.Kind, key) == nil {
			return c.Server.create(kind, body)
		}
		return c.Server.change(kind, key, "", func(live client.Object) (client.Object, error) { return c.Server.apply(kind, live, body) })
	})
}

// Delete implements client.Writer.
func (c *Client) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	key := client.ObjectKeyFromObject(o)
	return c.write(ctx, "delete", o, nil, func(kind schema.GroupVersionKind) (client.Object, error) {
		return nil, c.Server.remove(kind.Kind, key, *(&client.DeleteOptions{}).ApplyOptions(options))
	})
}

// DeleteAllOf implements client.Writer.
func (c *Client) DeleteAllOf(_ context.Context, o client.Object, _ ...client.DeleteAllOfOption) error {
	return fmt.Errorf("deleting all of a %T: not modeled", o)
}

// Status implements client.StatusClient.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *Client) SubResource(name string) client.SubResourceClient { return subresource{c, name} }

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.Server.Scheme }

// RESTMapper implements client.Client; nothing is mapped.
func (c *Client) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

// GroupVersionKindFor implements client.Client.
func (c *Client) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return c.Server.kindOf(o)
}

// IsObjectNamespaced implements client.Client.
func (c *Client) IsObjectNamespaced(o runtime.Object) (bool, error) {
	named, ok := o.(client.Object)
	return ok && named.GetNamespace() != "", nil
}
