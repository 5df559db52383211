package kube

import (
	"errors"
	"fmt"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapi "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/deploy/crds"
)

// definition has the schema of a custom resource definition.
type definition struct {
	structural *schema.Structural
	openAPI    *spec.Schema
}

// definitions caches each definition for the process: they are large and constant.
var definitions sync.Map

func definitionOf(resource string) (*definition, error) {
	load, _ := definitions.LoadOrStore(resource, sync.OnceValues(func() (*definition, error) {
		return readDefinition(resource)
	}))
	return load.(func() (*definition, error))()
}

func readDefinition(resource string) (*definition, error) {
	text, err := crds.Files.ReadFile(resource + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", resource, err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", resource, err)
	}
	for _, version := range crd.Spec.Versions {
		if !version.Storage {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", resource, err)
		}
		s, err := schema.NewStructural(&props)
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", resource, err)
		}
		return &definition{structural: s, openAPI: s.Unfold().ToKubeOpenAPI()}, nil
	}
	return nil, fmt.Errorf("the definition of %s has no version that is stored", resource)
}

// conform applies a custom resource's schema: it prunes unknown fields, sets defaults, and returns the errors of
// validation. CEL rules are not evaluated: those of virtflow's definitions are about fields of pods.
func (o *object) conform() field.ErrorList {
	if !o.kind.custom || o.kind.foreign {
		return nil
	}
	d, err := definitionOf(o.kind.Resource)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	o.content = runtime.DeepCopyJSON(o.content) // parts may be shared with another version
	pruning.Prune(o.content, d.structural, true)
	fillIn(o.content, d.structural)
	o.encoded = nil
	var errs field.ErrorList
	result := validate.NewSchemaValidator(d.openAPI, nil, "", strfmt.Default).Validate(o.content)
	for _, err := range result.Errors {
		at := ""
		var v *openapi.Validation
		if errors.As(err, &v) {
			at = v.Name
		}
		errs = append(errs, field.Invalid(field.NewPath(at), "", err.Error()))
	}
	return errs
}

// fillIn removes null where a field must not be null, and sets defaults.
func fillIn(at any, s *schema.Structural) {
	if s == nil {
		return
	}
	switch at := at.(type) {
	case map[string]any:
		for name := range s.Properties {
			p := s.Properties[name]
			value, ok := at[name]
			if ok && value == nil && !p.Nullable {
				delete(at, name)
				ok = false
			}
			if !ok && p.Default.Object != nil {
				at[name] = runtime.DeepCopyJSONValue(p.Default.Object)
			}
			fillIn(at[name], &p)
		}
		if s.AdditionalProperties != nil {
			for _, value := range at {
				fillIn(value, s.AdditionalProperties.Structural)
			}
		}
	case []any:
		for _, value := range at {
			fillIn(value, s.Items)
		}
	}
}
