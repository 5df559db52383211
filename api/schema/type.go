package schema

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// JSON types, as messages name them.
const (
	typeObject  = "object"
	typeArray   = "array"
	typeString  = "string"
	typeBoolean = "boolean"
	typeInteger = "integer"
	typeNumber  = "number"
	typeNull    = "null"
)

// Formats of numbers and strings, as messages name them.
const (
	formatTime  = "date-time"
	formatInt32 = "int32"
	formatInt64 = "int64"
)

// Type is the schema of a JSON value. It is read-only once compiled, and safe for concurrent use.
type Type struct {
	types    []string // nil: anything
	format   string
	fields   map[string]*property // of an object; nil: a map
	required []string
	elem     *Type // of an array or a map
}

type property struct {
	*Type
	enum     []string
	nullable bool
}

// Compile makes the Type of the Go type of example.
func Compile(example any) *Type {
	return (&compiler{known: map[reflect.Type]*Type{}}).compile(reflect.TypeOf(example))
}

type compiler struct{ known map[reflect.Type]*Type }

func (c *compiler) compile(t reflect.Type) *Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n, ok := c.known[t]; ok {
		return n
	}
	n := &Type{}
	c.known[t] = n
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		n.types, n.fields = []string{typeString, typeInteger, typeNumber}, map[string]*property{}
		return n
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		n.types, n.format, n.fields = []string{typeString}, formatTime, map[string]*property{}
		return n
	case reflect.TypeFor[metav1.Duration]():
		n.types = []string{typeString}
		return n
	case reflect.TypeFor[intstr.IntOrString]():
		n.types = []string{typeString, typeNumber}
		return n
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		n.types = []string{typeObject}
		return n
	}
	switch t.Kind() {
	case reflect.String:
		n.types = []string{typeString}
	case reflect.Bool:
		n.types = []string{typeBoolean}
	case reflect.Float32, reflect.Float64:
		n.types = []string{typeNumber}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint, reflect.Uint8, reflect.Uint16:
		n.types, n.format = []string{typeInteger}, formatInt32
	case reflect.Int64, reflect.Uint32, reflect.Uint64:
		n.types, n.format = []string{typeInteger}, formatInt64
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			n.types = []string{typeString}
			break
		}
		n.types, n.elem = []string{typeArray}, c.compile(t.Elem())
	case reflect.Map:
		n.types, n.elem = []string{typeObject}, c.compile(t.Elem())
	case reflect.Struct:
		n.types, n.fields = []string{typeObject}, map[string]*property{}
		c.addFields(n, t)
	default: // an interface: anything
	}
	return n
}

func (c *compiler) addFields(n *Type, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			c.addFields(n, embedded)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		key := t.PkgPath() + "." + t.Name() + "." + name
		n.fields[name] = &property{Type: c.compile(f.Type), enum: enumerated(t, name),
			nullable: name == "creationTimestamp" || nullableTime(t, name)}
		if options == "" && !scalar(f.Type) && !optional()[key] {
			n.required = append(n.required, name)
		}
	}
}

// scalar reports whether KubeVirt's schema has a default for the type, the empty text, zero or false: such a field may
// be left out.
func scalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	default:
		return false
	}
}

// nullableTime reports whether a field is a time that may be null, as clients write those of conditions without one.
func nullableTime(t reflect.Type, name string) bool {
	return strings.HasSuffix(t.Name(), "Condition") && (name == "lastProbeTime" || name == "lastTransitionTime")
}
