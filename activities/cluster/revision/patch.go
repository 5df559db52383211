package revision

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/virtflow/virtflow/contract"
)

const pathTolerations = "/spec/tolerations"

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// LiveAnnotations returns the annotations of a VM's template that its running instance and the instance's pod follow:
// the descheduler's.
func LiveAnnotations() []string {
	return []string{"descheduler.alpha.kubernetes.io/evict", "descheduler.alpha.kubernetes.io/prefer-no-eviction"}
}

// patch lists what is to change in the instance. It begins with a test of the UID, and what is replaced or removed is
// tested to be what was seen, so that a change by another client is not undone.
func (v *Verdict) patch(s Subject) error {
	var ops []Operation
	annotations := map[string]string{}
	if v.Generation != 0 {
		annotations[contract.AnnotationVMGeneration] = strconv.FormatInt(v.Generation, 10)
	}
	for _, key := range LiveAnnotations() {
		want, wanted := template(&s.VM.Spec).ObjectMeta.Annotations[key]
		has, there := s.VMI.Annotations[key]
		switch {
		case wanted && (!there || want != has):
			annotations[key] = want
		case there && !wanted:
			at := "/metadata/annotations/" + escape(key)
			ops = append(ops, Operation{"test", at, has}, Operation{Op: "remove", Path: at})
		}
	}
	ops = append(ops, annotate(s.VMI.Annotations, annotations)...)
	if s.LiveUpdate && !strings.HasPrefix(v.RestartRequired, NotLive) && s.Last != nil {
		more, err := placement(s)
		if err != nil {
			return err
		}
		if v.Refused = refusal(s, more); v.Refused == "" {
			ops = append(ops, more...)
		}
	}
	if len(ops) > 0 {
		v.Patch = append([]Operation{{"test", "/metadata/uid", string(s.VMI.UID)}}, ops...)
	}
	return nil
}

func annotate(has, set map[string]string) []Operation {
	if len(set) == 0 {
		return nil
	}
	if has == nil {
		return []Operation{{"add", "/metadata/annotations", set}}
	}
	var ops []Operation
	for _, key := range append([]string{contract.AnnotationVMGeneration}, LiveAnnotations()...) {
		value, ok := set[key]
		if !ok {
			continue
		}
		at := "/metadata/annotations/" + escape(key)
		if old, there := has[key]; there {
			ops = append(ops, Operation{"test", at, old}, Operation{"replace", at, value})
			continue
		}
		ops = append(ops, Operation{"add", at, value})
	}
	return ops
}

// placement returns the changes that decide about the next node of an instance. They hold for the pod that it gets when
// it moves; the one that it has stays.
func placement(s Subject) ([]Operation, error) {
	want, has := &template(&s.VM.Spec).Spec, &s.VMI.Spec
	var ops []Operation
	for _, f := range []struct {
		path      string
		want, has any
	}{
		{"/spec/nodeSelector", want.NodeSelector, has.NodeSelector},
		{"/spec/affinity", want.Affinity, has.Affinity},
		{pathTolerations, want.Tolerations, has.Tolerations},
	} {
		differ, err := Fields(f.want, f.has)
		if err != nil {
			return nil, err
		}
		switch {
		case len(differ) == 0, isEmpty(f.has) && isEmpty(f.want):
		case isEmpty(f.has):
			ops = append(ops, Operation{"add", f.path, f.want})
		case isEmpty(f.want):
			ops = append(ops, Operation{"test", f.path, f.has}, Operation{Op: "remove", Path: f.path})
		default:
			ops = append(ops, Operation{"test", f.path, f.has}, Operation{"replace", f.path, f.want})
		}
	}
	return ops, nil
}

// refusal returns why such a change has to wait, in KubeVirt's words ("": it has not): the guest is on its way to a
// node that was chosen by what holds now.
func refusal(s Subject, ops []Operation) string {
	m := s.VMI.Status.MigrationState
	if len(ops) == 0 || m == nil || m.MigrationUID == "" || m.Completed || m.Failed {
		return ""
	}
	for _, path := range Changed(ops) {
		if path != pathTolerations {
			return affinityMoves
		}
	}
	return tolerationsMove
}

// isEmpty reports whether a pointer is nil, or a slice or map has no entry.
func isEmpty(v any) bool {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		return r.IsNil()
	}
	return r.Len() == 0
}

// Changed returns the paths that a patch changes.
func Changed(patch []Operation) []string {
	var out []string
	for _, o := range patch {
		if o.Op != "test" {
			out = append(out, o.Path)
		}
	}
	return out
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
