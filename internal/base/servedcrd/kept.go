// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package servedcrd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// CheckKept returns an error if the API server has not kept all of a status that was written: a definition that was installed since the
// operator started prunes fields that it does not know. Nothing may be done that rests on the record of such a field.
func CheckKept(written, kept any) error {
	want, err := json.Marshal(written)
	if err != nil {
		return fmt.Errorf("encoding the status that was written: %w", err)
	}
	have, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encoding the status that was kept: %w", err)
	}
	if bytes.Equal(want, have) {
		return nil
	}
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		return fmt.Errorf("decoding the status that was written: %w", err)
	}
	if err := json.Unmarshal(have, &b); err != nil {
		return fmt.Errorf("decoding the status that was kept: %w", err)
	}
	if path := lost("status", a, b); path != "" {
		return fmt.Errorf("the API server has not kept %s: the served CustomResourceDefinition belongs to another operator or to another version of this one, for which config/crd of this version is to be installed, or an admission policy has changed it", path)
	}
	return nil
}

// lost returns the path of a value that is in a decoded JSON value and not in another; empty if there is none.
func lost(path string, from, in any) string {
	switch a := from.(type) {
	case map[string]any:
		b, ok := in.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(a)) {
			if p := lost(path+"."+key, a[key], b[key]); ok && p != "" {
				return p
			}
		}
		if ok {
			return ""
		}
	case []any:
		b, ok := in.([]any)
		for i := range min(len(a), len(b)) {
			if p := lost(fmt.Sprintf("%s[%d]", path, i), a[i], b[i]); p != "" {
				return p
			}
		}
		if ok && len(a) == len(b) {
			return ""
		}
	}
	if reflect.DeepEqual(from, in) {
		return ""
	}
	return path
}
