package support

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field is one supported field: a path of JSON names, "[]" for each element of a list, "**" for everything below.
type Field struct {
	Path string
	// Values restricts the field's values; nil permits all valid ones.
	Values []string
}

// Check compares an object with a list of supported fields and returns a cause for every set field that is not on it,
// in the order of their paths. The prefix is the path of the object, for example spec.template.spec.
func Check(object any, fields []Field, prefix string) ([]metav1.StatusCause, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing %s as JSON: %w", prefix, err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("reading %s as JSON: %w", prefix, err)
	}
	w := walk{root: newNode(fields)}
	w.visit(tree, w.root, prefix)
	return w.causes, nil
}

// node is the list of fields as a tree.
type node struct {
	children map[string]*node
	field    *Field
}

func newNode(fields []Field) *node {
	root := &node{}
	for i := range fields {
		at := root
		for _, part := range split(fields[i].Path) {
			if at.children == nil {
				at.children = map[string]*node{}
			}
			next := at.children[part]
			if next == nil {
				next = &node{}
				at.children[part] = next
			}
			at = next
		}
		at.field = &fields[i]
	}
	return root
}

// split splits disks[].disk.bus into disks, [], disk, bus.
func split(path string) []string {
	return strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")
}

type walk struct {
	root   *node
	causes []metav1.StatusCause
}

func (w *walk) visit(value any, at *node, path string) {
	if at == nil {
		if !empty(value) {
			w.refuse(path, path+" is not supported yet")
		}
		return
	}
	if at.children["**"] != nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			w.visit(v[k], at.children[k], path+"."+k)
		}
	case []any:
		for i, e := range v {
			w.visit(e, at.children["[]"], path+"["+strconv.Itoa(i)+"]")
		}
	default:
		w.value(value, at, path)
	}
}

func (w *walk) value(value any, at *node, path string) {
	if value == nil || at.field == nil || len(at.field.Values) == 0 {
		return
	}
	s := fmt.Sprint(value)
	if s == "" {
		return
	}
	for _, allowed := range at.field.Values {
		if s == allowed {
			return
		}
		if p, ok := strings.CutSuffix(allowed, "*"); ok && strings.HasPrefix(s, p) {
			return
		}
	}
	w.refuse(path, fmt.Sprintf("%s: %s is not supported yet (supported: %s)", path, s,
		strings.Join(at.field.Values, ", ")))
}

func (w *walk) refuse(path, message string) {
	w.causes = append(w.causes,
		metav1.StatusCause{Type: metav1.CauseTypeFieldValueNotSupported, Field: path, Message: message})
}

// empty reports whether a value means nothing: an absent value, or an empty list or text. An empty object may mean
// something ("tpm: {}"), and so may false and 0, which the Go types leave out where they mean nothing.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	default:
		return false
	}
}
