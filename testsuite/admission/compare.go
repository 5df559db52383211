package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
)

// Outcome is the result of comparing one answer.
type Outcome int

// Outcomes.
const (
	Agrees Outcome = iota
	Differs
	NotServed  // virtflow has no such webhook
	NotRunYet  // KubeVirt accepts it, and virtflow refuses it by name, because it does not support that feature yet
	NoExpected // KubeVirt gave no answer
)

// notRunYet is part of every refusal that is not a rule of KubeVirt's, but a feature that virtflow does not support.
const notRunYet = "not supported yet"

// Result is one case with its answer.
type Result struct {
	*Record
	Got      *Answer
	Outcome  Outcome
	Verdict  bool // both allow, or both refuse
	Warnings bool
	// Different has what differs.
	Different string
}

// Compare compares an answer; nil stands for a path that is not served.
func Compare(r *Record, got *Answer) *Result {
	want := r.Want()
	x := &Result{Record: r, Got: got}
	switch {
	case want == nil || want.Panic != "":
		x.Outcome = NoExpected
		return x
	case got == nil:
		x.Outcome = NotServed
		return x
	}
	x.Verdict = want.Allowed == got.Allowed
	x.Warnings = slices.Equal(want.Warnings, got.Warnings)
	switch {
	case !x.Verdict && want.Allowed && isOnlyNotRunYet(got):
		x.Outcome = NotRunYet
	case !x.Verdict:
		x.Different = fmt.Sprintf("want %s\n    got  %s", brief(want), brief(got))
	case !want.Allowed:
		x.Different = denial(want, got)
	case r.Webhook == "mutating":
		x.Different = mutation(r, want, got)
	}
	if x.Different != "" {
		x.Outcome = Differs
	}
	return x
}

func isOnlyNotRunYet(a *Answer) bool {
	return len(a.Causes) > 0 && !slices.ContainsFunc(a.Causes, func(c metav1.StatusCause) bool {
		return !strings.Contains(c.Message, notRunYet)
	})
}

func brief(a *Answer) string {
	if a.Allowed {
		return "allowed"
	}
	return fmt.Sprintf("%d %s %s", a.Code, a.Message, causes(a))
}

// causes returns the causes in sorted order, because KubeVirt's order varies.
func causes(a *Answer) []string {
	out := make([]string, len(a.Causes))
	for i, c := range a.Causes {
		out[i] = fmt.Sprintf("%s %s: %s", c.Type, c.Field, c.Message)
	}
	slices.Sort(out)
	return out
}

func denial(want, got *Answer) string {
	if want.Code == got.Code && want.Reason == got.Reason && want.Message == got.Message &&
		slices.Equal(causes(want), causes(got)) {
		return ""
	}
	return fmt.Sprintf("want %s\n    got  %s", brief(want), brief(got))
}

func mutation(r *Record, want, got *Answer) string {
	a, err := mutated(r, want)
	if err != nil {
		return "the expected patch: " + err.Error()
	}
	b, err := mutated(r, got)
	if err != nil {
		return "the patch: " + err.Error()
	}
	paths := differences(a, b, "")
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return slices.ContainsFunc(r.Nondeterministic, func(n string) bool {
			return p == n || strings.HasPrefix(p, n+"/")
		})
	})
	return strings.Join(paths, " ")
}

// mutated returns the object after the patch, without virtflow's own additions and without empty values.
func mutated(r *Record, a *Answer) (any, error) {
	var review struct {
		Request struct {
			Object json.RawMessage `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(r.Request, &review); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	raw := []byte(review.Request.Object)
	if len(a.Patch) > 0 && string(a.Patch) != "null" {
		var ops []map[string]any
		if err := json.Unmarshal(a.Patch, &ops); err != nil {
			return nil, fmt.Errorf("reading the patch: %w", err)
		}
		for _, op := range ops {
			if op["op"] == "replace" { // it is done even if there is nothing to replace
				op["op"] = "add"
			}
		}
		written, err := json.Marshal(ops)
		if err != nil {
			return nil, fmt.Errorf("writing the patch: %w", err)
		}
		patch, err := jsonpatch.DecodePatch(written)
		if err != nil {
			return nil, fmt.Errorf("reading the patch: %w", err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			return nil, fmt.Errorf("applying the patch: %w", err)
		}
	}
	var object any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	withoutOwn(object)
	return prune(object), nil
}

func withoutOwn(object any) {
	o, ok := object.(map[string]any)
	if !ok {
		return
	}
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		return
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, contract.AnnotationRequestedBy)
		delete(annotations, contract.AnnotationRequestedGeneration)
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	if finalizers, ok := metadata["finalizers"].([]any); ok {
		finalizers = slices.DeleteFunc(finalizers, func(f any) bool { return f == contract.FinalizerVM })
		metadata["finalizers"] = finalizers
		if len(finalizers) == 0 {
			delete(metadata, "finalizers")
		}
	}
}

// prune removes empty values: nulls, and empty objects that the Go types always write.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, e := range v {
			e = prune(e)
			v[k] = e
			m, isObject := e.(map[string]any)
			if e == nil || isObject && len(m) == 0 &&
				slices.Contains([]string{"resources", "devices", "metadata", "status"}, k) {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return value
}

func differences(a, b any, at string) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	var out []string
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		all := maps.Clone(x)
		maps.Copy(all, y)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			path := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
			va, inA := x[k]
			vb, inB := y[k]
			if inA != inB {
				out = append(out, path)
				continue
			}
			out = append(out, differences(va, vb, path)...)
		}
		return out
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i := range x {
			out = append(out, differences(x[i], y[i], at+"/"+strconv.Itoa(i))...)
		}
		return out
	}
	return []string{at}
}
