package admission

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtflow/virtflow/api/schema"
	"github.com/virtflow/virtflow/contract"
)

type reported map[string]contract.RequestReport

func (m reported) Report(workflow string, r contract.RequestReport) { m[workflow] = r }

// TestReportsWhoDeletesAndScales: the handler reports the user to the object's workflow, and refuses nothing.
func TestReportsWhoDeletesAndScales(t *testing.T) {
	const own = "system:serviceaccount:virtflow:virtflow-control-worker"
	object := `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "resourceVersion": "7"}}`
	deletion := contract.RequestReport{UID: "u", ResourceVersion: "7", Operation: contract.OperationDelete,
		Actor: "alice"}
	of := func(user string) string {
		return `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "resourceVersion": "7", "annotations": {"` +
			contract.AnnotationRequestedBy + `": "` + user + `"}}}`
	}
	scaling := contract.RequestReport{UID: "u", ResourceVersion: "7", Operation: contract.OperationReplicate,
		Replicas: 3, Actor: "alice"}
	yes := true
	for name, c := range map[string]struct {
		resource, sub string
		operation     admissionv1.Operation
		object, old   string
		user          string
		dry           *bool
		want          reported
	}{
		"a VM":  {resource: "virtualmachines", want: reported{"vm/demo/i": deletion}},
		"a VMI": {resource: "virtualmachineinstances", want: reported{"vmi/demo/i": deletion}},
		"a replica set": {resource: "virtualmachineinstancereplicasets",
			want: reported{"replicaset/demo/i": deletion}},
		"a migration": {resource: "virtualmachineinstancemigrations",
			want: reported{"migration/demo/i": deletion}},
		"a scale": {resource: "virtualmachineinstancereplicasets", sub: "scale",
			operation: admissionv1.Update, object: `{"spec": {"replicas": 3}}`,
			want: reported{"replicaset/demo/i": scaling}},
		"one of more parts than are looked at": {resource: "virtualmachines",
			old: `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "finalizers": [""` +
				strings.Repeat(`,""`, schema.MaxParts) + `]}}`},
		"one that is going already": {resource: "virtualmachines",
			old: `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "resourceVersion": "7", ` +
				`"deletionTimestamp": "2026-01-01T00:00:00Z"}}`},
		"by who asked for it":       {resource: "virtualmachines", old: of("alice")},
		"by another than asked for": {resource: "virtualmachines", old: of("bob"), want: reported{"vm/demo/i": deletion}},
		"a set by who asked for it": {resource: "virtualmachineinstancereplicasets", old: of("alice"),
			want: reported{"replicaset/demo/i": deletion}},
		"a scale by who asked for the set": {resource: "virtualmachineinstancereplicasets", sub: "scale", old: of("alice"),
			operation: admissionv1.Update, object: `{"spec": {"replicas": 3}}`,
			want: reported{"replicaset/demo/i": scaling}},
		"a scale that is unlike": {resource: "virtualmachineinstancereplicasets", sub: "scale",
			operation: admissionv1.Update, object: `{"spec": {"replicas": "x"}}`},
		"something else":            {resource: "pods"},
		"an update":                 {resource: "virtualmachines", operation: admissionv1.Update, object: object},
		"a dry run":                 {resource: "virtualmachines", dry: &yes},
		"virtflow itself":           {resource: "virtualmachines", user: own},
		"without the object":        {resource: "virtualmachines", old: "-"},
		"an object without a name":  {resource: "virtualmachines", old: `{"metadata": {}}`},
		"an object that is no JSON": {resource: "virtualmachines", old: `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := reported{}
			h := Handlers(Options{OwnUsers: []string{own}, Reports: got})[PathReport]
			req := &admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Delete, SubResource: c.sub, DryRun: c.dry,
				UserInfo:  authenticationv1.UserInfo{Username: "alice"},
				Resource:  metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: c.resource},
				OldObject: runtime.RawExtension{Raw: []byte(object)},
			}
			if c.operation != "" {
				req.Operation, req.Object.Raw = c.operation, []byte(c.object)
			}
			if c.user != "" {
				req.UserInfo.Username = c.user
			}
			switch c.old {
			case "":
			case "-":
				req.OldObject.Raw = nil
			default:
				req.OldObject.Raw = []byte(c.old)
			}
			body, err := json.Marshal(
				admissionv1.AdmissionReview{
					TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1",
						Kind: "AdmissionReview"}, Request: req})
			require.NoError(t, err)
			r := httptest.NewRequest(http.MethodPost, PathReport, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var review admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review), w.Body.String())
			require.True(t, review.Response.Allowed)
			if c.want == nil {
				c.want = reported{}
			}
			require.Equal(t, c.want, got)
		})
	}
}
