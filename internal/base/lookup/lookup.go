// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package lookup reads an object that may not exist.
package lookup

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get returns an object, or nil if it does not exist. The error names the object by its kind and key.
func Get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, kind string, key client.ObjectKey, options ...client.GetOption) (P, error) {
	object := P(new(T))
	if err := reader.Get(ctx, key, object, options...); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, klog.KRef(key.Namespace, key.Name), err)
	}
	return object, nil
}
