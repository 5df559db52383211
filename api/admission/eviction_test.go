package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

const evictionObject = `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "virt-launcher-i", ` +
	`"namespace": "demo"}}`

func TestEvictions(t *testing.T) {
	migratable := []kubevirtv1.VirtualMachineInstanceCondition{
		{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		pod        func(*corev1.Pod)
		vmi        func(*kubevirtv1.VirtualMachineInstance)
		gone       bool
		unreadable bool   // the pod
		moves      string // to this node, while it is marked
		object     string
		message    string // ""; the eviction may go ahead
		marked     string
		annotate   string
	}{
		"of another pod":                  {pod: func(p *corev1.Pod) { p.Labels = nil }},
		"of a pod that has ended":         {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"of a pod that names no instance": {pod: func(p *corev1.Pod) { p.Annotations = nil }},
		"without a strategy": {vmi: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.EvictionStrategy = nil
		}},
		"of an instance that may be stopped": {vmi: strategy(kubevirtv1.EvictionStrategyNone)},
		"of one that is to move but cannot": {
			vmi:     strategy(kubevirtv1.EvictionStrategyLiveMigrate),
			message: "VMI i is configured with an eviction strategy but is not live-migratable",
		},
		"of one that moves if it can, and cannot": {vmi: strategy(kubevirtv1.EvictionStrategyLiveMigrateIfPossible)},
		"of one that can move": {
			vmi: func(v *kubevirtv1.VirtualMachineInstance) {
				strategy(kubevirtv1.EvictionStrategyLiveMigrate)(v)
				v.Status.Conditions = migratable
			},
			message: `Eviction triggered evacuation of VMI "demo/i"`, marked: "node1",
		},
		"of one with another migration": {
			vmi:     strategy(kubevirtv1.EvictionStrategyExternal),
			message: `Eviction triggered evacuation of VMI "demo/i"`, marked: "node1",
		},
		"by the descheduler": {
			vmi:     strategy(kubevirtv1.EvictionStrategyExternal),
			message: `Eviction triggered evacuation of VMI "demo/i"`, marked: "node1", annotate: "descheduler",
			object: `{"metadata": {"name": "virt-launcher-i", "annotations": {"requested-by": ` +
				`"sigs.k8s.io/descheduler"}}}`,
		},
		"for a dry run": {
			vmi:     strategy(kubevirtv1.EvictionStrategyExternal),
			message: `Eviction triggered evacuation of VMI "demo/i"`,
			object:  `{"metadata": {"name": "virt-launcher-i"}, "deleteOptions": {"dryRun": ["All"]}}`,
		},
		"of one that moves already": {
			vmi: func(v *kubevirtv1.VirtualMachineInstance) {
				strategy(kubevirtv1.EvictionStrategyExternal)(v)
				v.Status.EvacuationNodeName = "node1"
			},
			message: `Evacuation in progress: Eviction triggered evacuation of VMI "demo/i"`, marked: "node1",
		},
		"of one that has moved here, marked for where it was": {
			vmi: func(v *kubevirtv1.VirtualMachineInstance) {
				strategy(kubevirtv1.EvictionStrategyExternal)(v)
				v.Status.EvacuationNodeName = "node0"
			},
			message: `Eviction triggered evacuation of VMI "demo/i"`, marked: "node1",
		},
		"of one that moves away at that moment": {
			vmi: strategy(kubevirtv1.EvictionStrategyExternal), moves: "node2",
			message: "kubevirt failed marking the vmi for eviction: testing value /status/nodeName failed: test failed",
		},
		"of the pod that it moves to": {
			vmi: func(v *kubevirtv1.VirtualMachineInstance) {
				strategy(kubevirtv1.EvictionStrategyExternal)(v)
				v.Status.NodeName = "node2"
			},
			message: "Eviction request for target Pod",
		},
		"of a pod that is gone": {pod: func(p *corev1.Pod) { p.Name = "another" }},
		"of a pod that cannot be read": {unreadable: true,
			message: "virtflow failed getting the pod: etcdserver: request timed out"},
		"of an instance that is gone": {gone: true,
			message: `kubevirt failed getting the vmi: virtualmachineinstances.kubevirt.io "i" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "demo", Name: "virt-launcher-i",
					Labels:      map[string]string{"kubevirt.io": "virt-launcher"},
					Annotations: map[string]string{contract.AnnotationDomain: "i"},
				},
				Spec: corev1.PodSpec{NodeName: "node1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			vmi := &kubevirtv1.VirtualMachineInstance{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "i", UID: "u"}}
			vmi.Status.NodeName = "node1"
			if c.pod != nil {
				c.pod(pod)
			}
			if c.vmi != nil {
				c.vmi(vmi)
			}
			scheme := runtime.NewScheme()
			require.NoError(t, corev1.AddToScheme(scheme))
			require.NoError(t, kubevirtv1.AddToScheme(scheme))
			objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod)
			if !c.gone {
				objects = objects.WithObjects(vmi)
			}
			if c.unreadable {
				objects = objects.WithInterceptorFuncs(interceptor.Funcs{Get: func(context.Context, client.WithWatch,
					client.ObjectKey, client.Object, ...client.GetOption) error {
					return errors.New("etcdserver: request timed out")
				}})
			}
			cluster := objects.Build()
			writer := &patches{t: t, vmi: vmi, moves: c.moves}
			object := c.object
			if object == "" {
				object = evictionObject
			}
			h := Handlers(Options{
				Cluster: func(context.Context) (defaults.Cluster, error) {
					return defaults.Cluster{}, nil
				}, Reader: cluster, Writer: writer,
			})[PathValidateEviction].(*admission.Webhook)
			resp := h.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Namespace: "demo", Name: "virt-launcher-i",
				Object: runtime.RawExtension{Raw: []byte(object)},
			}})
			require.Equal(t, c.message == "", resp.Allowed, "%v", resp.Result)
			if c.message != "" {
				require.EqualValues(t, http.StatusTooManyRequests, resp.Result.Code, resp.Result.Message)
				require.Equal(t, c.message, resp.Result.Message)
			}
			require.Equal(t, c.marked, vmi.Status.EvacuationNodeName)
			require.Equal(t, c.annotate, vmi.Annotations["kubevirt.io/eviction-source"])
		})
	}
}

// patches applies JSON patches to one instance, as the API server does; the library's own fake cannot read its status.
type patches struct {
	client.Writer
	t     *testing.T
	vmi   *kubevirtv1.VirtualMachineInstance
	moves string
}

func (p *patches) Patch(_ context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	require.Equal(p.t, types.JSONPatchType, patch.Type())
	raw, err := patch.Data(o)
	require.NoError(p.t, err)
	operations, err := jsonpatch.DecodePatch(raw)
	require.NoError(p.t, err)
	if p.moves != "" {
		o.(*kubevirtv1.VirtualMachineInstance).Status.NodeName = p.moves
	}
	before, err := json.Marshal(o)
	require.NoError(p.t, err)
	after, err := operations.Apply(before)
	if p.moves != "" && err != nil {
		return err
	}
	require.NoError(p.t, err)
	if len((&client.PatchOptions{}).ApplyOptions(options).DryRun) > 0 {
		return nil
	}
	return json.Unmarshal(after, p.vmi)
}

func strategy(s kubevirtv1.EvictionStrategy) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) { v.Spec.EvictionStrategy = &s }
}
