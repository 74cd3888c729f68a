// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package taskconfig decodes spec.config of tasks, and what status.config records of it. It knows no task type.
package taskconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Config is a pointer to the config of a task type, C.
type Config[C any] interface {
	*C
	// Default sets the fields that have a default, before the config is decoded.
	Default()
	// Validate returns what is wrong with a config that was decoded, naming the field. It may rewrite what can be written in
	// several ways.
	Validate() error
}

// Decode decodes the YAML or JSON of a task's spec.config, fills in the defaults, and validates the result. Unknown and
// duplicate fields, aliases, anchors, and more than one document are errors, which name the field or the line.
func Decode[C any, P Config[C]](config string) (C, error) {
	var c, none C
	P(&c).Default()
	err := strictly(config, &c)
	if err == nil {
		err = P(&c).Validate()
	}
	if err != nil {
		return none, fmt.Errorf("spec.config: %w", err)
	}
	return c, nil
}

// Recorded decodes status.config, the JSON of a config that was decoded when its task was admitted, perhaps by another version of the operator:
// unknown fields are ignored, and missing ones have their default.
func Recorded[C any, P Config[C]](config string) (C, error) {
	var c, none C
	P(&c).Default()
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return none, fmt.Errorf("status.config: %w", err)
	}
	return c, nil
}

func strictly(config string, into any) error {
	if err := refuseAliases(config); err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(config))
	if err != nil {
		return notValid(err)
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	return errors.Join(append(strict, err)...)
}

func notValid(err error) error { return fmt.Errorf("it is not valid YAML or JSON: %w", err) }

// refuseAliases refuses what lets a short text stand for a long one.
func refuseAliases(config string) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader([]byte(config)))
	var document yamlv3.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return notValid(err)
	}
	if err := walk(&document); err != nil {
		return err
	}
	if err := decoder.Decode(&yamlv3.Node{}); !errors.Is(err, io.EOF) {
		return errors.New("it holds more than one document")
	}
	return nil
}

func walk(n *yamlv3.Node) error {
	if n.Kind == yamlv3.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: aliases and anchors are not allowed", n.Line)
	}
	for _, child := range n.Content {
		if err := walk(child); err != nil {
			return err
		}
	}
	return nil
}
