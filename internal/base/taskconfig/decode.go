// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package taskconfig decodes spec.config of tasks. It knows no task type.
package taskconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode decodes the YAML or JSON of a task's spec.config into a pointer to a struct. Unknown and
// duplicate fields, aliases, anchors, and more than one document are errors, which name the field or the line.
// An empty config leaves the struct as it is.
func Decode(config string, into any) error {
	if err := refuseAliases(config); err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(config))
	if err != nil {
		return fmt.Errorf("spec.config is not valid YAML or JSON: %w", err)
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return fmt.Errorf("spec.config: %w", err)
	}
	if len(strict) > 0 {
		return fmt.Errorf("spec.config: %w", errors.Join(strict...))
	}
	return nil
}

// refuseAliases refuses what lets a short text stand for a long one.
func refuseAliases(config string) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader([]byte(config)))
	var document yamlv3.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("spec.config is not valid YAML or JSON: %w", err)
	}
	if err := walk(&document); err != nil {
		return err
	}
	if err := decoder.Decode(&yamlv3.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("spec.config holds more than one document")
	}
	return nil
}

func walk(n *yamlv3.Node) error {
	if n.Kind == yamlv3.AliasNode || n.Anchor != "" {
		return fmt.Errorf("spec.config, line %d: aliases and anchors are not allowed", n.Line)
	}
	for _, child := range n.Content {
		if err := walk(child); err != nil {
			return err
		}
	}
	return nil
}
