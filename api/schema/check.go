package schema

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// maxFindings bounds the findings in one document.
	maxFindings = 1000
	// MaxItems is the longest list in a strict document. KubeVirt has no such limit; no machine has as many devices.
	MaxItems = 1000
)

// Check compares a value, as encoding/json decodes it into an any, with a Type, and returns what is wrong with it: at
// most maxFindings findings, each once. For an object it lists first the unknown fields, then the findings in the
// others, then the missing ones; each in the order of the names. Path is the path of the value, and elements of lists
// have their list's path, as in KubeVirt. Strict refuses unknown fields.
func (t *Type) Check(value any, path string, strict bool) []string {
	c := checker{strict: strict, seen: map[string]bool{}}
	c.value(value, &property{Type: t}, path)
	return c.found
}

type checker struct {
	strict bool
	found  []string
	seen   map[string]bool
	// tries counts findings, with repeated ones: of a million equal elements only some are checked.
	tries int
}

func (c *checker) full() bool { return len(c.found) >= maxFindings || c.tries >= 10*maxFindings }

func (c *checker) add(format string, args ...any) {
	if c.full() {
		return
	}
	c.tries++
	finding := fmt.Sprintf(format, args...)
	if !c.seen[finding] {
		c.found = append(c.found, finding)
		c.seen[finding] = true
	}
}

func (c *checker) value(value any, p *property, path string) {
	if len(p.types) == 0 || c.full() {
		return
	}
	got := jsonType(value)
	if got == typeNull && p.nullable {
		return
	}
	if wanted, given, fits := p.fits(value, got); !fits {
		c.add("%s in body must be of type %s: %q", path, wanted, given)
		if object, ok := value.(map[string]any); ok && p.fields != nil {
			c.unknown(object, p, path)
		}
		if len(p.enum) > 0 && p.elem == nil { // a list's are its elements'
			c.add("%s in body should be one of %v", path, p.enum)
		}
		return
	}
	switch v := value.(type) {
	case map[string]any:
		c.object(v, p, path)
	case []any:
		if c.strict && len(v) > MaxItems {
			c.add("%s in body should have at most %d items", path, MaxItems)
			return
		}
		for _, e := range v {
			c.value(e, &property{Type: p.elem, enum: p.enum}, path)
		}
	case string:
		if p.format == formatTime {
			if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
				c.add("%s in body must be of type date-time: %q", path, v)
			}
		}
		if len(p.enum) > 0 && !slices.Contains(p.enum, v) {
			c.add("%s in body should be one of %v", path, p.enum)
		}
	}
}

func (c *checker) object(object map[string]any, p *property, path string) {
	names := slices.Sorted(maps.Keys(object))
	if p.fields == nil {
		if p.elem != nil {
			for _, name := range names {
				c.value(object[name], &property{Type: p.elem}, path+"."+name)
			}
		}
		return
	}
	c.unknown(object, p, path)
	for _, name := range names {
		if field, ok := p.fields[name]; ok {
			c.value(object[name], field, path+"."+name)
		}
	}
	for _, name := range p.required {
		if _, ok := object[name]; !ok {
			c.add("%s.%s in body is required", path, name)
		}
	}
}

func (c *checker) unknown(object map[string]any, p *property, path string) {
	if !c.strict {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ok := p.fields[name]; !ok && !c.full() {
			c.add("%s.%s in body is a forbidden property", path, name)
		}
	}
}

// fits reports whether a value may have this JSON type, and if not, which types were expected and given, in the words
// of KubeVirt's validator: it names formats where a type has one, and treats a number as whole only if a float64 can
// distinguish it from its neighbours.
func (t *Type) fits(value any, got string) (wanted, given string, ok bool) {
	whole := got == typeNumber && slices.Contains(t.types, typeInteger) && isWhole(value)
	if whole || slices.Contains(t.types, got) {
		return "", "", true
	}
	if t.format != "" {
		switch got {
		case typeNumber:
			return t.format, "float64", false
		case typeBoolean, typeObject:
			return t.format, "", false
		}
	}
	return strings.Join(t.types, ","), got, false
}

func jsonType(value any) string {
	switch value.(type) {
	case nil:
		return typeNull
	case map[string]any:
		return typeObject
	case []any:
		return typeArray
	case string:
		return typeString
	case bool:
		return typeBoolean
	default:
		return typeNumber
	}
}

func isWhole(value any) bool {
	const largest = 1<<53 - 1
	f, ok := value.(float64)
	return ok && f == math.Trunc(f) && math.Abs(f) <= largest
}
