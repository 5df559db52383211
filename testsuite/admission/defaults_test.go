package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/settings"
)

// configurations returns configurations that change an instance's defaults.
func configurations() map[string]kubevirtv1.KubeVirtConfiguration {
	stage, external := kubevirtv1.VMRolloutStrategyStage, kubevirtv1.EvictionStrategyExternal
	return map[string]kubevirtv1.KubeVirtConfiguration{
		"as KubeVirt's": {},
		"as installed": {
			VMRolloutStrategy:    &stage,
			NetworkConfiguration: &kubevirtv1.NetworkConfiguration{NetworkInterface: "masquerade"},
		},
		"everything set": {
			CPUModel: "Haswell", MachineType: "pc-q35-7.2", EvictionStrategy: &external,
			LiveUpdateConfiguration: &kubevirtv1.LiveUpdateConfiguration{MaxHotplugRatio: 2},
			NetworkConfiguration:    &kubevirtv1.NetworkConfiguration{NetworkInterface: "masquerade"},
		},
	}
}

// TestSameInstanceFromEachOwner: an instance has the same spec and first status if it is created by hand, by a VM or by
// a replica set.
func TestSameInstanceFromEachOwner(t *testing.T) {
	specs := instanceSpecs(t)
	for name, configuration := range configurations() {
		t.Run(name, func(t *testing.T) {
			kv := &kubevirtv1.KubeVirt{Spec: kubevirtv1.KubeVirtSpec{Configuration: configuration},
				Status: kubevirtv1.KubeVirtStatus{DefaultArchitecture: "amd64"}}
			w := ways{t: t, settings: settings.From(kv), now: time.Unix(1_000_000_000, 0)}
			w.webhooks = virtadmission.Handlers(virtadmission.Options{
				Cluster: func(context.Context) (defaults.Cluster, error) {
					return w.settings.Cluster, nil
				}, Now: func() time.Time { return w.now },
			})
			made := 0
			for id, spec := range specs {
				byHand := w.byHand(spec)
				if byHand == nil {
					continue // the webhooks of VMs and sets refuse it, too
				}
				byVM, err := w.byVM(spec)
				require.NoError(t, err, id)
				bySet, err := w.bySet(spec)
				require.NoError(t, err, id)
				want := canonical(t, byHand)
				require.JSONEq(t, want, canonical(t, byVM), "%s: by a VM", id)
				require.JSONEq(t, want, canonical(t, bySet), "%s: by a replica set", id)
				made++
			}
			require.Greater(t, made, 80)
		})
	}
}

// instanceSpecs returns the specs of the project's cases, and of the recorded ones if VIRTFLOW_ADMISSION_CASES names a
// file, by case.
func instanceSpecs(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	records, err := Cases()
	require.NoError(t, err)
	if name := os.Getenv("VIRTFLOW_ADMISSION_CASES"); name != "" {
		recorded, err := Read(name)
		require.NoError(t, err)
		records = append(records, recorded...)
	}
	specs := map[string]json.RawMessage{}
	for _, r := range records {
		var review struct {
			Request struct {
				Object struct {
					Spec json.RawMessage `json:"spec"`
				} `json:"object"`
			} `json:"request"`
		}
		if r.Resource != "virtualmachineinstances" && r.Resource != "virtualmachines" &&
			r.Resource != "virtualmachineinstancereplicasets" ||
			json.Unmarshal(r.Request, &review) != nil {
			continue
		}
		spec := review.Request.Object.Spec
		if r.Resource != "virtualmachineinstances" {
			var of struct {
				Template struct {
					Spec json.RawMessage `json:"spec"`
				} `json:"template"`
			}
			if json.Unmarshal(spec, &of) != nil {
				continue
			}
			spec = of.Template.Spec
		}
		var known kubevirtv1.VirtualMachineInstanceSpec
		if len(spec) > 0 && json.Unmarshal(spec, &known) == nil {
			specs[r.ID] = spec
		}
	}
	return specs
}

// ways creates instances in each way.
type ways struct {
	t        *testing.T
	settings settings.Settings
	webhooks map[string]http.Handler
	now      time.Time
}

// spec returns a case's spec as a starting point. A VM generates identities, which an instance that is created by hand
// has only if its spec has them.
func (w *ways) spec(raw json.RawMessage) kubevirtv1.VirtualMachineInstanceSpec {
	var s kubevirtv1.VirtualMachineInstanceSpec
	require.NoError(w.t, json.Unmarshal(raw, &s))
	if s.Domain.Firmware == nil {
		s.Domain.Firmware = &kubevirtv1.Firmware{}
	}
	s.Domain.Firmware.UUID, s.Domain.Firmware.Serial = "6a1a24a1-4061-4607-8bf4-a3963d0c5895", "serial"
	return s
}

// byHand returns the instance, or nil if the webhook refuses it.
func (w *ways) byHand(raw json.RawMessage) *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{Spec: w.spec(raw)}
	return admitted(w, virtadmission.PathMutateVMI, "virtualmachineinstances", vmi)
}

func (w *ways) byVM(raw json.RawMessage) (*kubevirtv1.VirtualMachineInstance, error) {
	always := kubevirtv1.RunStrategyAlways
	vm := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{
		RunStrategy: &always, Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: w.spec(raw)},
	}}
	if m := admitted(w, virtadmission.PathMutateVM, "virtualmachines", vm); m != nil {
		vm = m
	}
	return instance.New(vm, w.settings, instance.Request{Now: w.now})
}

func (w *ways) bySet(raw json.RawMessage) (*kubevirtv1.VirtualMachineInstance, error) {
	labels := map[string]string{"app": "web"}
	set := &kubevirtv1.VirtualMachineInstanceReplicaSet{Spec: kubevirtv1.VirtualMachineInstanceReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: w.spec(raw)},
	}}
	if m := admitted(w, virtadmission.PathMutateVMIRS, "virtualmachineinstancereplicasets", set); m != nil {
		set = m
	}
	return instance.NewReplica(set, 1, w.settings, instance.Request{Now: w.now})
}

// admitted returns an object as a webhook changes it at its creation, or nil if it is refused.
func admitted[T any](w *ways, path, resource string, object *T) *T {
	w.t.Helper()
	raw, err := json.Marshal(object)
	require.NoError(w.t, err)
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create,
			Resource: metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: resource},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	require.NoError(w.t, err)
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", jsonType)
	answer := httptest.NewRecorder()
	w.webhooks[path].ServeHTTP(answer, r)
	var review admissionv1.AdmissionReview
	require.NoError(w.t, json.Unmarshal(answer.Body.Bytes(), &review))
	if !review.Response.Allowed {
		return nil
	}
	patch, err := jsonpatch.DecodePatch(review.Response.Patch)
	require.NoError(w.t, err)
	after, err := patch.Apply(raw)
	require.NoError(w.t, err)
	out := new(T)
	require.NoError(w.t, json.Unmarshal(after, out))
	return out
}

// canonical returns the spec and the first status of an instance. An instance of a VM or set has its first condition
// and its revision at once, and a webhook's answer has lost the time zone.
func canonical(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	vmi.Status.Conditions, vmi.Status.VirtualMachineRevisionName = nil, ""
	raw, err := json.Marshal(
		map[string]any{"spec": vmi.Spec, "status": vmi.Status,
			"topology": vmi.Annotations[defaults.AnnotationPCITopology]})
	require.NoError(t, err)
	return string(raw)
}
