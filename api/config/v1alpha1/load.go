// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// Load reads a configuration from a file, sets the defaults and validates the result.
func Load(file string) (*OperatorConfiguration, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's configuration: %w", err)
	}
	c, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decoding the operator's configuration in %s: %w", file, err)
	}
	SetDefaults(c)
	if errs := Validate(c); len(errs) > 0 {
		return nil, fmt.Errorf("validating the operator's configuration in %s: %w", file, errs.ToAggregate())
	}
	return c, nil
}

// Decode decodes a configuration in YAML or JSON. Unknown and duplicate fields are an error.
func Decode(data []byte) (*OperatorConfiguration, error) {
	c := &OperatorConfiguration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if c.APIVersion != GroupVersion.String() || c.Kind != Kind {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not %q and %q", c.APIVersion, c.Kind, GroupVersion.String(), Kind)
	}
	return c, nil
}
