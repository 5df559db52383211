package validation

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// definitionName checks the name of a NetworkAttachmentDefinition, with its namespace or without.
func definitionName(path *field.Path, value string) []metav1.StatusCause {
	namespace, name, qualified := strings.Cut(value, "/")
	if !qualified {
		name = namespace
	} else if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return invalid(path, "must be the name of a NetworkAttachmentDefinition, or namespace/name: %s", problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return invalid(path, "must be the name of a NetworkAttachmentDefinition, or namespace/name: %s", problems[0])
	}
	return nil
}
