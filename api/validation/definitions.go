package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
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

// bindingPlugins checks what launcher pods need for binding plugins. A name is a part of an annotation within the pod.
func bindingPlugins(path *field.Path, plugins map[string]kubevirtv1.InterfaceBindingPlugin) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		plugin, at := plugins[name], path.Key(contract.Cut(name, longestPlugin))
		if name == "" || len(name) > longestPlugin {
			causes = append(causes, invalid(at, "a name must have from 1 to %d bytes", longestPlugin)...)
		}
		if d := plugin.NetworkAttachmentDefinition; d != "" {
			causes = append(causes, definitionName(at.Child("networkAttachmentDefinition"), d)...)
		}
		if o := plugin.ComputeResourceOverhead; o != nil {
			if q, ok := o.Requests[corev1.ResourceMemory]; ok && q.Sign() < 0 {
				causes = append(causes, invalid(at.Child("computeResourceOverhead", "requests", "memory"),
					"must not be negative")...)
			}
		}
	}
	return causes
}

// longestPlugin is the longest name of a binding plugin, in bytes.
const longestPlugin = 253
