package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	virtadmission "github.com/virtflow/virtflow/api/admission"
)

// Reasons of causes, abbreviated.
const (
	invalid      = string(metav1.CauseTypeFieldValueInvalid)
	missing      = string(metav1.CauseTypeFieldValueRequired)
	notFound     = string(metav1.CauseTypeFieldValueNotFound)
	duplicate    = string(metav1.CauseTypeFieldValueDuplicate)
	notSupported = string(metav1.CauseTypeFieldValueNotSupported)
	forbidden    = string(metav1.CauseTypeForbidden)
)

// why is one cause. In field and message F stands for the path of the VMI's spec, and @ in a message for the field.
type why struct{ reason, field, message string }

// asker is the default user of a case.
const asker = "kubernetes-admin"

// call is a request in short form: objects are YAML.
type call struct {
	id, path, resource, operation, user string
	object, old                         string
	name, namespace                     string
}

// review returns the AdmissionReview of a call, as the API server would send it.
func (c call) review() (json.RawMessage, error) {
	user := c.user
	if user == "" {
		user = asker
	}
	resource, sub, _ := strings.Cut(c.resource, "/")
	group := "kubevirt.io"
	switch resource {
	case "pods":
		group = ""
	case "migrationpolicies":
		group = "migrations.kubevirt.io"
	}
	req := &admissionv1.AdmissionRequest{
		UID: types.UID(c.id), Operation: admissionv1.Operation(c.operation), Name: c.name, Namespace: c.namespace,
		SubResource: sub,
		Resource:    metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		UserInfo:    authenticationv1.UserInfo{Username: user},
	}
	for _, part := range []struct {
		text string
		into *runtime.RawExtension
	}{{c.object, &req.Object}, {c.old, &req.OldObject}} {
		if part.text == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(part.text))
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.id, err)
		}
		part.into.Raw = raw
	}
	raw, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	})
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.id, err)
	}
	return raw, nil
}

func (c call) record(want *Answer) (*Record, error) {
	request, err := c.review()
	if err != nil {
		return nil, err
	}
	kind := "validating"
	if strings.Contains(c.path, "mutate") {
		kind = "mutating"
	}
	return &Record{
		ID: c.id, Title: c.id, Webhook: kind, Path: c.path, Resource: c.resource, Operation: c.operation,
		Request: request, Response: want,
		Nondeterministic: []string{
			"/spec/domain/firmware/uuid", "/spec/template/spec/domain/firmware/uuid",
			"/spec/template/spec/domain/firmware/serial",
			"/status/phaseTransitionTimestamps/0/phaseTransitionTimestamp",
		},
	}, nil
}

// refusal returns KubeVirt's answer for causes: all of their texts, and ten causes at most.
func refusal(causes []metav1.StatusCause) *Answer {
	const most = 10
	listed := causes[:min(len(causes), most)]
	texts := make([]string, len(listed))
	for i, c := range listed {
		texts[i] = c.Message
	}
	message := strings.Join(texts, ", ")
	if more := len(causes) - len(listed); more > 0 {
		message += fmt.Sprintf(", and %d more validation errors", more)
	}
	return &Answer{Code: http.StatusUnprocessableEntity, Reason: string(metav1.StatusReasonInvalid), Message: message,
		Causes: listed}
}

// causesAt returns causes for a spec at a path.
func causesAt(at string, list []why) []metav1.StatusCause {
	out := make([]metav1.StatusCause, len(list))
	written := func(s string) string {
		if s == "F" || strings.HasPrefix(s, "F.") || strings.HasPrefix(s, "F[") {
			s = at + s[1:]
		}
		for _, before := range []string{" ", "'", "(", "{"} {
			s = strings.ReplaceAll(s, before+"F.", before+at+".")
		}
		return s
	}
	for i, w := range list {
		field := written(w.field)
		out[i] = metav1.StatusCause{
			Type: metav1.CauseType(w.reason), Field: field, Message: strings.ReplaceAll(written(w.message), "@", field),
		}
	}
	return out
}

// specCase is a VMI's spec, as a merge patch to a plain one, and its causes.
type specCase struct {
	name, spec string
	causes     []why
	network    bool // a rule about networks: for an instance it is reported twice
	only       string
}

const plainSpec = `{"architecture": "amd64", "domain": {"devices": {}, "memory": {"guest": "64Mi"}}}`

func merged(base, patch string) (string, error) {
	p, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", patch, err)
	}
	out, err := jsonpatch.MergePatch([]byte(base), p)
	if err != nil {
		return "", fmt.Errorf("merging %s: %w", patch, err)
	}
	return string(out), nil
}

// records returns the same spec as an instance, as a VM's and as a replica set's.
func (c specCase) records() ([]*Record, error) {
	spec, err := merged(plainSpec, c.spec)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.name, err)
	}
	var out []*Record
	for _, as := range []struct{ kind, path, resource, object, at string }{
		{"vmi", virtadmission.PathValidateVMI, "virtualmachineinstances",
			`{"metadata": {"name": "a"}, "spec": ` + spec + `}`, "spec"},
		{
			"vm", virtadmission.PathValidateVM, "virtualmachines",
			`{"metadata": {"name": "a"}, "spec": {"runStrategy": "Always", "template": {"spec": ` + spec + `}}}`,
			"spec.template.spec",
		},
		{
			"vmirs", virtadmission.PathValidateVMIRS, "virtualmachineinstancereplicasets",
			`{"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": ` +
				`{"labels": {"a": "b"}}, "spec": ` + spec + `}}}`,
			"spec.template.spec",
		},
	} {
		if c.only != "" && !strings.Contains(" "+c.only+" ", " "+as.kind+" ") {
			continue
		}
		want := &Answer{Allowed: true}
		if causes := causesAt(as.at, c.causes); len(causes) > 0 {
			if c.network && as.kind == "vmi" {
				causes = append(causes, causes...)
			}
			want = refusal(causes)
		}
		r, err := call{id: as.kind + " " + c.name, path: as.path, resource: as.resource, operation: "CREATE",
			object: as.object}.record(want)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// callCase is any call with its answer.
type callCase struct {
	call
	allowed bool
	code    int32 // with a message and no cause
	message string
	causes  []why
	patch   string // YAML: the parts of the object after the mutation
	warning string
}

func (c callCase) record() (*Record, error) {
	want := &Answer{Allowed: c.allowed}
	switch {
	case c.code != 0:
		want = &Answer{Code: c.code, Message: c.message}
	case len(c.causes) > 0:
		want = refusal(causesAt("spec", c.causes))
	}
	if c.warning != "" {
		want.Warnings = []string{c.warning}
	}
	if c.patch != "" {
		var parts map[string]any
		if err := yaml.Unmarshal([]byte(c.patch), &parts); err != nil {
			return nil, fmt.Errorf("case %s: %w", c.id, err)
		}
		var ops []map[string]any
		for name, value := range parts {
			ops = append(ops, map[string]any{"op": "add", "path": "/" + name, "value": value})
		}
		raw, err := json.Marshal(ops)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.id, err)
		}
		want.Patch = raw
	}
	return c.call.record(want)
}

// Cases returns the project's own cases.
func Cases() ([]*Record, error) {
	var out []*Record
	for _, list := range [][]specCase{machineCases(), unusualCases(), deviceCases(), storageCases(), networkCases(),
		podCases()} {
		for _, c := range list {
			records, err := c.records()
			if err != nil {
				return nil, err
			}
			out = append(out, records...)
		}
	}
	for _, list := range [][]callCase{vmCases(), instanceCases(), otherCases(), mutationCases()} {
		for _, c := range list {
			r, err := c.record()
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}
