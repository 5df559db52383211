package multus

import (
	"encoding/json"
	"strings"
)

// Requested returns the NetworkAttachmentDefinition, as namespace/name, that a pod's annotation requests for an
// interface of that name; "" if it requests none. The annotation is a JSON list, or a list of
// [namespace/]name@interface with commas. A name without a namespace is one of the pod's namespace.
func Requested(annotation, namespace, interfaceName string) string {
	annotation = strings.TrimSpace(annotation)
	if strings.HasPrefix(annotation, "[") {
		var all []struct{ Name, Namespace, Interface string }
		if json.Unmarshal([]byte(annotation), &all) != nil {
			return ""
		}
		for _, s := range all {
			if s.Interface != interfaceName || s.Name == "" {
				continue
			}
			if s.Namespace != "" {
				namespace = s.Namespace
			}
			return QualifiedName(s.Name, namespace)
		}
		return ""
	}
	for element := range strings.SplitSeq(annotation, ",") {
		name, at, _ := strings.Cut(strings.TrimSpace(element), "@")
		if at == interfaceName && name != "" {
			return QualifiedName(name, namespace)
		}
	}
	return ""
}
