package schema

import (
	"fmt"
	"maps"
	"slices"
)

// Document is the schema of one kind: of its spec and its status. The API server checks the metadata.
type Document struct{ Spec, Status *Type }

// Check returns what is wrong with an object, in the words of KubeVirt's validator; nil if nothing is.
func (d Document) Check(object map[string]any) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains([]string{"kind", "apiVersion", "spec", "status", "metadata"}, name) {
			found = append(found, fmt.Sprintf(".%s in body is a forbidden property", name))
		}
	}
	if _, ok := object["spec"]; !ok {
		found = append(found, "spec in body is required")
	}
	found = append(found, d.Spec.Check(object["spec"], "spec", true)...)
	return append(found, d.CheckStatus(object)...)
}

// CheckStatus checks the status alone, in which unknown fields do not matter.
func (d Document) CheckStatus(object map[string]any) []string {
	if object["status"] == nil {
		return nil
	}
	return d.Status.Check(object["status"], "status", false)
}
