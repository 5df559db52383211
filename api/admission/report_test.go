package admission

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtflow/virtflow/workflows/contract"
)

type told map[string]contract.RequestReport

func (m told) Report(workflow string, r contract.RequestReport) { m[workflow] = r }

// TestWhoDeletesAndScalesIsReported to the workflow of the object, by the API server only, and nothing is ever refused.
func TestWhoDeletesAndScalesIsReported(t *testing.T) {
	const own = "system:serviceaccount:virtflow:virtflow-control-worker"
	object := `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "resourceVersion": "7"}}`
	deletion := contract.RequestReport{UID: "u", ResourceVersion: "7", Operation: contract.OperationDelete, Actor: "alice"}
	again := deletion
	again.Again = true
	scaling := contract.RequestReport{UID: "u", ResourceVersion: "7", Operation: contract.OperationReplicate, Replicas: 3, Actor: "alice"}
	yes := true
	for name, c := range map[string]struct {
		resource, sub string
		operation     admissionv1.Operation
		object, old   string
		user, proof   string
		dry           *bool
		want          told
	}{
		"a VM":                      {resource: "virtualmachines", want: told{"vm/demo/i": deletion}},
		"a VMI":                     {resource: "virtualmachineinstances", want: told{"vmi/demo/i": deletion}},
		"a replica set":             {resource: "virtualmachineinstancereplicasets", want: told{"replicaset/demo/i": deletion}},
		"a scale":                   {resource: "virtualmachineinstancereplicasets", sub: "scale", operation: admissionv1.Update, object: `{"spec": {"replicas": 3}}`, want: told{"replicaset/demo/i": scaling}},
		"one that is going already": {resource: "virtualmachines", old: `{"metadata": {"namespace": "demo", "name": "i", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z"}}`, want: told{"vm/demo/i": again}},
		"a scale that is unlike":    {resource: "virtualmachineinstancereplicasets", sub: "scale", operation: admissionv1.Update, object: `{"spec": {"replicas": "x"}}`},
		"something else":            {resource: "pods"},
		"an update":                 {resource: "virtualmachines", operation: admissionv1.Update, object: object},
		"a rehearsal":               {resource: "virtualmachines", dry: &yes},
		"virtflow itself":           {resource: "virtualmachines", user: own},
		"somebody else's word":      {resource: "virtualmachines", proof: "guess"},
		"without a proof":           {resource: "virtualmachines", proof: "-"},
		"without the object":        {resource: "virtualmachines", old: "-"},
		"an object without a name":  {resource: "virtualmachines", old: `{"metadata": {}}`},
		"an object that is no JSON": {resource: "virtualmachines", old: `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := told{}
			mux := http.NewServeMux()
			for path, h := range Handlers(Options{
				OwnUsers: []string{own}, Reports: got, Proven: func(path, p string) bool { return path == PathReport && p == "secret" },
			}) {
				mux.Handle(path, h)
			}
			req := &admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Delete, SubResource: c.sub, DryRun: c.dry, UserInfo: authenticationv1.UserInfo{Username: "alice"},
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
			path := PathReport + "/secret"
			switch c.proof {
			case "":
			case "-":
				path = PathReport
			default:
				path = PathReport + "/" + c.proof
			}
			body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req})
			require.NoError(t, err)
			r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			var review admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review), w.Body.String())
			require.True(t, review.Response.Allowed)
			if c.want == nil {
				c.want = told{}
			}
			require.Equal(t, c.want, got)
		})
	}
}
