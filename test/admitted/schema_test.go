// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package admitted feeds the operator with whatever the API server admits: Etcds that are generated from the schema of the definition, and
// kept if they pass its validation, expressions included, as the API server carries it out.
package admitted

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// definition is how the API server checks objects of a kind.
type definition struct {
	structural  *schema.Structural
	schema      validation.SchemaValidator
	expressions *cel.Validator
}

// read reads the definition in a file.
func read(file string) (*definition, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, crd); err != nil {
		return nil, err
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	checks, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &definition{structural, checks, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit does to a new object what the API server does to it, and returns it as it is stored; an error if it is refused.
func (d *definition) admit(object map[string]any) (map[string]any, error) {
	stored := runtime.DeepCopyJSON(object)
	pruning.Prune(stored, d.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(stored, d.structural)
	defaulting.Default(stored, d.structural)
	errs := validation.ValidateCustomResource(nil, stored, d.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, stored)...)
	if len(errs) == 0 {
		var more field.ErrorList
		more, _ = d.expressions.Validate(context.Background(), nil, d.structural, stored, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("refused: %w", errs.ToAggregate())
	}
	return stored, nil
}
