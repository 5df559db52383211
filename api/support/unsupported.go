package support

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Unsupported is something that the API has and that is refused by name.
type Unsupported struct {
	// Path is that of the field, as in Field. Only are the values that run; none: nothing of it does.
	Path string
	Only []string
	// Why it is so, and what to do instead where there is something.
	Why string
}

// Section is what is unsupported of one object.
type Section struct {
	Title string
	Rows  []Unsupported
}

// AllUnsupported is what remains of KubeVirt's API when all that is supported is taken away, with the reasons.
func AllUnsupported() []Section {
	var out []Section
	for _, o := range objects() {
		section := Section{Title: o.title}
		for _, u := range unlisted(o.of, o.supported) {
			if r, found := reasonOf(o.name, u.Path); !found || r.why != nothing {
				u.Why = r.why
				section.Rows = append(section.Rows, u)
			}
		}
		out = append(out, section)
	}
	return out
}

type object struct {
	name, title string
	of          reflect.Type
	supported   []Field
}

func objects() []object {
	return []object{
		{inVM, "A VirtualMachine's spec", reflect.TypeFor[kubevirtv1.VirtualMachineSpec](), VMSpec()},
		{inInstance, "The spec of a VirtualMachineInstance, and of a template for one",
			reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec](), VMISpec()},
		{inConfiguration, "The spec of the KubeVirt object",
			reflect.TypeFor[kubevirtv1.KubeVirtSpec](), Configuration()},
	}
}

// unlisted are the fields of a type that are not on a list, or of which only some values are. Of a field that is not on
// it at all, what is below it is left out.
func unlisted(of reflect.Type, supported []Field) []Unsupported {
	var out []Unsupported
	add := func(path string, only []string) { out = append(out, Unsupported{Path: path, Only: only}) }
	var visit func(at reflect.Type, known *node, path string)
	visit = func(at reflect.Type, known *node, path string) {
		for at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch {
		case known == nil:
			add(path, nil)
			return
		case known.children["**"] != nil:
			return
		case known.field != nil && len(known.field.Values) > 0:
			add(path, known.field.Values)
			return
		}
		switch at.Kind() { //nolint:exhaustive // the others have nothing within
		case reflect.Slice:
			if known.children["[]"] != nil {
				visit(at.Elem(), known.children["[]"], path+"[]")
			}
		case reflect.Struct:
			if at == reflect.TypeFor[metav1.ObjectMeta]() {
				return // what is not on the list is for the API server to write
			}
			for _, f := range fieldsOf(at) {
				visit(f.of, known.children[f.name], strings.TrimPrefix(path+"."+f.name, "."))
			}
		}
	}
	visit(of, newNode(supported), "")
	slices.SortFunc(out, func(a, b Unsupported) int { return strings.Compare(a.Path, b.Path) })
	return out
}

type member struct {
	name string
	of   reflect.Type
}

// fieldsOf are the fields of a struct by their names in JSON, those of embedded ones among them.
func fieldsOf(at reflect.Type) []member {
	if at.Kind() == reflect.Pointer {
		at = at.Elem()
	}
	var out []member
	for f := range at.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && strings.Contains(options, "inline"):
			out = append(out, fieldsOf(f.Type)...)
		case name != "" && name != "-":
			out = append(out, member{name: name, of: f.Type})
		}
	}
	return out
}

func reasonOf(section, path string) (reason, bool) {
	for _, r := range reasons() {
		if r.fits(section, path) {
			return r, true
		}
	}
	return reason{}, false
}

func (r reason) fits(section, path string) bool {
	return r.section == section && (path == r.path || strings.HasPrefix(path, r.path+".") ||
		strings.HasPrefix(path, r.path+"[]"))
}
