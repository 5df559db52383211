package schema

import (
	"fmt"
	"maps"
	"slices"
)

// Document is how an object of one kind is written down: what its spec and its status may hold. Metadata is the API
// server's to check.
type Document struct{ Spec, Status *Type }

// Check says in words what is wrong with an object, as KubeVirt's validator does; nil when nothing is.
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

// CheckStatus looks at the status alone, in which unknown fields do not matter.
func (d Document) CheckStatus(object map[string]any) []string {
	if object["status"] == nil {
		return nil
	}
	return d.Status.Check(object["status"], "status", false)
}
