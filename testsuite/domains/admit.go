package domains

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/settings"
)

// gates returns the feature gates of the cases with an open configuration.
func gates() []string {
	return []string{
		defaults.GateDownwardMetrics, defaults.GateHostDevices, defaults.GateHostDisk, defaults.GateReservedOverhead,
		defaults.GateSidecar, defaults.GateTDX, defaults.GateVirtioFSStorage,
	}
}

// configured returns the KubeVirt object of a case's cluster.
func configured(config string, v Variant, permitted []string) *kubevirtv1.KubeVirt {
	kv := &kubevirtv1.KubeVirt{}
	kv.Status.DefaultArchitecture = "amd64"
	developer := &kubevirtv1.DeveloperConfiguration{UseEmulation: v == Emulated}
	if config == "open" {
		developer.FeatureGates = gates()
		kv.Spec.Configuration.NetworkConfiguration = &kubevirtv1.NetworkConfiguration{
			Binding: map[string]kubevirtv1.InterfaceBindingPlugin{
				"l2bridge": {DomainAttachmentType: kubevirtv1.ManagedTap}},
		}
	}
	kv.Spec.Configuration.DeveloperConfiguration = developer
	if len(permitted) > 0 {
		kv.Spec.Configuration.PermittedHostDevices = &kubevirtv1.PermittedHostDevices{}
	}
	for _, name := range permitted { // the kind of the list makes no difference to a VM
		list := &kv.Spec.Configuration.PermittedHostDevices.PciHostDevices
		*list = append(*list, kubevirtv1.PciHostDevice{ResourceName: name, ExternalResourceProvider: true})
	}
	if v == Stage {
		stage := kubevirtv1.VMRolloutStrategyStage
		kv.Spec.Configuration.VMRolloutStrategy = &stage
	}
	return kv
}

// webhooks are the webhooks of one cluster.
type webhooks struct {
	settings.Settings
	handlers map[string]http.Handler
	// cannotBe has the reasons why there is no such cluster: its KubeVirt object is refused.
	cannotBe []metav1.StatusCause
}

// clusters has the clusters that cases were recorded for, each created once.
type clusters map[string]*webhooks

func (c clusters) of(t testing.TB, r *Record, v Variant) *webhooks {
	t.Helper()
	name := fmt.Sprint(r.Config, " ", v, " ", r.Facts.Permitted)
	if c[name] == nil {
		kv := configured(r.Config, v, r.Facts.Permitted)
		s := settings.From(kv)
		w := &webhooks{Settings: s, handlers: virtadmission.Handlers(virtadmission.Options{
			Cluster: func(context.Context) (defaults.Cluster, error) { return s.Cluster, nil },
		})}
		object, err := json.Marshal(kv)
		require.NoError(t, err)
		if answer := ask(t, w.handlers[virtadmission.PathValidateKubeVirt], object); !answer.Allowed {
			w.cannotBe = causesOf(answer)
		}
		c[name] = w
	}
	return c[name]
}

// admit sends an instance through the webhooks, as the API server does when a user creates it. The causes are the
// reasons of a refusal; none: it is admitted.
func (w *webhooks) admit(
	t testing.TB, vmi *kubevirtv1.VirtualMachineInstance,
) (*kubevirtv1.VirtualMachineInstance, []metav1.StatusCause) {
	t.Helper()
	if len(w.cannotBe) > 0 {
		return nil, w.cannotBe
	}
	object, err := json.Marshal(vmi)
	require.NoError(t, err)
	answer := ask(t, w.handlers[virtadmission.PathMutateVMI], object)
	if !answer.Allowed {
		return nil, causesOf(answer)
	}
	if len(answer.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(answer.Patch)
		require.NoError(t, err)
		object, err = patch.Apply(object)
		require.NoError(t, err)
	}
	answer = ask(t, w.handlers[virtadmission.PathValidateVMI], object)
	if !answer.Allowed {
		return nil, causesOf(answer)
	}
	out := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(t, json.Unmarshal(object, out))
	return out, nil
}

func causesOf(r *admissionv1.AdmissionResponse) []metav1.StatusCause {
	if r.Result.Details != nil && len(r.Result.Details.Causes) > 0 {
		return r.Result.Details.Causes
	}
	return []metav1.StatusCause{{Message: r.Result.Message}}
}

func ask(t testing.TB, h http.Handler, object []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	const resource = "virtualmachineinstances"
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
			Kind:     metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"},
			Resource: metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: resource},
		},
	})
	require.NoError(t, err)
	request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body.String())
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &review))
	require.NotNil(t, review.Response, fmt.Sprintf("%.200s", recorder.Body))
	return review.Response
}
