package support

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Unsupported is a field of the API that is refused by name.
type Unsupported struct {
	// Path is the field's path, as in Field. Only has the values that are supported; empty if none is.
	Path string
	Only []string
	// Why is the reason, and an alternative if there is one.
	Why string
}

// Section has the unsupported fields of one object.
type Section struct {
	Title string
	Rows  []Unsupported
}

// AllUnsupported returns the fields of KubeVirt's API that are not supported, with the reasons.
func AllUnsupported() []Section {
	var out []Section
	for _, o := range objects() {
		out = append(out, o.section(func(r reason) bool { return r.why != nothing && !r.hasNoEffect() }))
	}
	return out
}

// AllWithoutEffect returns the settings of the KubeVirt object that are accepted and have no effect.
func AllWithoutEffect() []Unsupported {
	for _, o := range objects() {
		if o.name == inConfiguration {
			return o.section(reason.hasNoEffect).Rows
		}
	}
	return nil
}

// WhyNoEffect returns why a field of the KubeVirt object's spec is accepted although it has no effect; "" if it is not
// such a field. The path begins below spec.
func WhyNoEffect(path string) string {
	if r, found := reasonOf(inConfiguration, path); found && r.hasNoEffect() {
		return r.why
	}
	return ""
}

type object struct {
	name, title string
	of          reflect.Type
	supported   []Field
}

// section returns the object's unlisted fields that have no reason, or one that want accepts.
func (o object) section(want func(reason) bool) Section {
	out := Section{Title: o.title}
	for _, u := range unlisted(o.of, o.supported) {
		if r, found := reasonOf(o.name, u.Path); want(r) || !found {
			u.Why = r.why
			out.Rows = append(out.Rows, u)
		}
	}
	return out
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

// unlisted returns the fields of a type that are not on a list, or of which only some values are. For a field that is
// not on it at all, the fields below it are left out.
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
				return // only the API server writes fields that are not on the list
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

// fieldsOf returns the fields of a struct by their JSON names, with those of embedded structs.
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
