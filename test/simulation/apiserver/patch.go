// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch returns what a patch makes of an object.
func (s *Server) patch(kind schema.GroupVersionKind, live client.Object, how types.PatchType, patch []byte) (client.Object, error) {
	before, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kind.Kind, err)
	}
	var after []byte
	switch how {
	case types.MergePatchType:
		after, err = merged(before, patch)
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, patch, live)
	default:
		err = fmt.Errorf("a patch of type %s is not modelled", how)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.decode(kind, after)
}

// apply returns what it makes of an object to apply a configuration: what was applied before, and is not any more, is removed.
func (s *Server) apply(kind schema.GroupVersionKind, live client.Object, configuration []byte) (client.Object, error) {
	meta, err := strategicpatch.NewPatchMetaFromStruct(live)
	if err != nil {
		return nil, fmt.Errorf("looking up how a %s is merged: %w", kind.Kind, err)
	}
	before, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kind.Kind, err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(s.applied[live.GetUID()], configuration, before, meta, true)
	if err != nil {
		return nil, fmt.Errorf("applying to a %s: %w", kind.Kind, err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, live)
	if err != nil {
		return nil, fmt.Errorf("applying to a %s: %w", kind.Kind, err)
	}
	s.applied[live.GetUID()] = configuration
	return s.decode(kind, after)
}

// merged returns a document with a merge patch (RFC 7386).
func merged(document, patch []byte) ([]byte, error) {
	var of, with any
	if err := errors.Join(json.Unmarshal(document, &of), json.Unmarshal(patch, &with)); err != nil {
		return nil, fmt.Errorf("decoding a merge patch: %w", err)
	}
	return json.Marshal(merge(of, with))
}

func merge(of, with any) any {
	changes, ok := with.(map[string]any)
	if !ok {
		return with
	}
	result, ok := of.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for key, change := range changes {
		if change == nil {
			delete(result, key)
			continue
		}
		result[key] = merge(result[key], change)
	}
	return result
}
