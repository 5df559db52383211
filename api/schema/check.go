package schema

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxFindings bounds what one document can make this package write down.
	maxFindings = 1000
	// MaxItems is how many elements a list of a strict document may have. KubeVirt knows no such limit; no machine has as many devices.
	MaxItems = 1000
)

// Check compares a value, as encoding/json decodes it into an any, with a Type, and says in words what is wrong: at most maxFindings
// findings, in the order of the fields' names. Path is where the value is. Strict refuses unknown fields.
func (t *Type) Check(value any, path string, strict bool) []string {
	c := checker{strict: strict}
	c.value(value, &property{Type: t}, path)
	return c.found
}

type checker struct {
	strict bool
	found  []string
}

func (c *checker) full() bool { return len(c.found) >= maxFindings }

func (c *checker) add(format string, args ...any) {
	if !c.full() {
		c.found = append(c.found, fmt.Sprintf(format, args...))
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
	whole := got == typeNumber && slices.Contains(p.types, typeInteger) && isWhole(value)
	if !whole && !slices.Contains(p.types, got) {
		c.add("%s in body must be of type %s: %q", path, strings.Join(p.types, ","), got)
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
		for i, e := range v {
			c.value(e, &property{Type: p.elem, enum: p.enum}, path+"."+strconv.Itoa(i))
		}
	case string:
		if p.dateTime {
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
	for _, name := range names {
		field, ok := p.fields[name]
		switch {
		case ok:
			c.value(object[name], field, path+"."+name)
		case c.strict:
			c.add("%s.%s in body is a forbidden property", path, name)
		}
	}
	for _, name := range p.required {
		if _, ok := object[name]; !ok {
			c.add("%s.%s in body is required", path, name)
		}
	}
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
	f, ok := value.(float64)
	return ok && f == math.Trunc(f)
}
