package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// Spec returns the specification of a VM that a ControllerRevision keeps.
func Spec(r *appsv1.ControllerRevision) (*kubevirt.VirtualMachineSpec, error) {
	var kept struct {
		Spec kubevirt.VirtualMachineSpec `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &kept); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s: %w", r.Name, err)
	}
	return &kept.Spec, nil
}

// Fields lists the paths, as in a manifest, at which two values of one type differ: domain.cpu.sockets,
// volumes[1].containerDisk.image. It is sorted. Two ways to write a quantity are no difference, nor are an empty list
// and none; an empty object may say something.
func Fields(a, b any) ([]string, error) {
	x, err := tree(a)
	if err != nil {
		return nil, err
	}
	y, err := tree(b)
	if err != nil {
		return nil, err
	}
	var out []string
	walk(x, y, "", &out)
	slices.Sort(out)
	return out, nil
}

// tree returns a value as JSON has it, so that two ways of writing a quantity are one.
func tree(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing a specification as JSON: %w", err)
	}
	var t any
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("reading a specification as JSON: %w", err)
	}
	return t, nil
}

func walk(a, b any, path string, out *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if (isX || a == nil) && (isY || b == nil) {
		if len(x)+len(y) == 0 && (isX != isY) { // "masquerade: {}" came or went: that says something
			*out = append(*out, path)
		}
		keys := maps.Clone(x)
		if keys == nil {
			keys = map[string]any{}
		}
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			walk(x[k], y[k], strings.TrimPrefix(path+"."+k, "."), out)
		}
		return
	}
	s, isS := a.([]any)
	t, isT := b.([]any)
	if (isS || a == nil) && (isT || b == nil) {
		for i := range max(len(s), len(t)) {
			walk(element(s, i), element(t, i), path+"["+strconv.Itoa(i)+"]", out)
		}
		return
	}
	*out = append(*out, path)
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// isBelow reports whether a path is that field, or lies within it.
func isBelow(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
