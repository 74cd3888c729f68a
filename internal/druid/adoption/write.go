// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotate sets and removes annotations of an object as it was read, with more of a merge patch.
func (a Adopter) annotate(ctx context.Context, object client.Object, annotations, more map[string]any) error {
	metadata, ok := more["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"], metadata["annotations"] = object.GetUID(), object.GetResourceVersion(), annotations
	more["metadata"] = metadata
	patch, err := json.Marshal(more)
	if err != nil {
		return fmt.Errorf("encoding the adoption of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	if err := a.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), apply.Manager); err != nil {
		// It has a kind: it was made by the scheme.
		kind, _ := a.Client.GroupVersionKindFor(object)
		return fmt.Errorf("annotating %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// finish removes the annotation that asked for it, with more of a merge patch, and returns state.ErrBehind.
func (a Adopter) finish(ctx context.Context, etcd *v1alpha1.Etcd, more map[string]any) error {
	if err := a.annotate(ctx, etcd, map[string]any{v1alpha1.AnnotationOperation: nil}, more); err != nil {
		return err
	}
	return state.ErrBehind
}
