package diff

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

func TestCensusCompare(t *testing.T) {
	const agrees, unconfirmed, differs = censusAgrees, censusUnconfirmed, censusDiffers
	type look struct {
		vms, vmis int
		want      censusResult
	}
	for name, looks := range map[string][]look{
		"all is well":      {{0, 0, agrees}, {0, 0, agrees}},
		"one is missing":   {{1, 0, unconfirmed}, {1, 0, differs}, {0, 0, agrees}},
		"one is left over": {{0, -1, unconfirmed}, {0, -1, differs}, {0, 0, agrees}},
		"visibility lags":  {{1, 0, unconfirmed}, {0, 0, agrees}, {1, 0, unconfirmed}, {0, 0, agrees}},
		"much changes":     {{3, 1, unconfirmed}, {-7, 2, unconfirmed}, {5, -4, unconfirmed}},
		"much changes, and some stay missing": {{3, 0, unconfirmed}, {7, 0, unconfirmed}, {5, 0, differs},
			{6, 0, unconfirmed},
			{7, 0, unconfirmed}, {6, 0, differs}},
		"much changes, and some are left over":   {{-3, 0, unconfirmed}, {-7, 0, unconfirmed}, {-5, 0, differs}},
		"one kind changes, the other is missing": {{3, 1, unconfirmed}, {7, 1, differs}},
		"what cannot be repaired waits": {{1, 0, unconfirmed}, {1, 0, differs}, {1, 0, agrees},
			{1, 0, agrees}},
		"and another goes missing": {{1, 0, unconfirmed}, {1, 0, differs}, {2, 0, unconfirmed},
			{2, 0, differs}},
		"the same number later": {{1, 0, unconfirmed}, {1, 0, differs}, {0, 0, agrees}, {1, 0, unconfirmed},
			{1, 0, differs}},
	} {
		t.Run(name, func(t *testing.T) {
			var c census
			for i, l := range looks {
				got := c.compare(map[string]int{"VirtualMachine": l.vms, "VirtualMachineInstance": l.vmis})
				require.Equal(t, l.want, got, "count %d", i)
				if got == censusDiffers {
					c.recordResync()
				}
			}
		})
	}
	require.Less(t, CensusInterval+confirmInterval, resyncInterval)
}

// visible is a Temporal of which one sees what runs.
type visible struct {
	client.Client
	running map[string]string // workflow type by ID
	lists   int
	// executions are those that are listed.
	executions []*workflowpb.WorkflowExecutionInfo
	// closed are last runs that have ended.
	closed []*workflowpb.WorkflowExecutionInfo
	// terminated and unreadable are the IDs of workflows that were terminated, and of those that Temporal fails to
	// describe.
	terminated, unreadable []string
}

func (v *visible) CountWorkflow(
	_ context.Context, r *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	out := &workflowservice.CountWorkflowExecutionsResponse{}
	for _, kind := range v.running {
		if strings.HasSuffix(r.GetQuery(), "WorkflowType = '"+kind+"'") {
			out.Count++
		}
	}
	return out, nil
}

func (v *visible) DescribeWorkflowExecution(
	_ context.Context, id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	for _, info := range v.closed {
		if info.GetExecution().GetWorkflowId() == id {
			return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
		}
	}
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if slices.Contains(v.unreadable, id) {
		return nil, serviceerror.NewDataLoss("its state is lost")
	} else if slices.Contains(v.terminated, id) {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	} else if _, ok := v.running[id]; !ok {
		return nil, serviceerror.NewNotFound("nothing is known of it")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

func (v *visible) ListWorkflow(
	context.Context, *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	v.lists++
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: v.executions}, nil
}

// running returns a workflow as Temporal lists it.
func running(t *testing.T, id string, attributes map[string]string) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	fields := map[string]*commonpb.Payload{}
	for key, value := range attributes {
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		require.NoError(t, err)
		fields[key] = payload
	}
	return &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: id},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	}
}

// TestCensusRestartsTerminatedEntity takes two counts, in less than a minute; until then nothing is listed.
func TestCensusRestartsTerminatedEntity(t *testing.T) {
	d := newTestDiffer(t)
	v := &visible{running: map[string]string{"vm/a/web": "VirtualMachine"}}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	d.entities.vm.sendChanged("a/web", change)
	waiting(d, "vm/a/web")
	next, err := l.TakeCensus(t.Context())
	require.NoError(t, err)
	require.Equal(t, CensusInterval, next)

	delete(v.running, "vm/a/web")
	next, err = l.TakeCensus(t.Context())
	require.NoError(t, err)
	require.Equal(t, confirmInterval, next)
	require.Zero(t, v.lists)
	require.Empty(t, outbox(d).pending)
	_, err = l.TakeCensus(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, v.lists)
	require.Equal(t, []string{"observe-vm+ v"}, waiting(d, "vm/a/web"))
}

// TestDoesNotResendWhenVisibilityLags: the workflow runs, but visibility lags under load. The resync skips a workflow
// that Temporal cannot describe, and is postponed if Temporal describes none.
func TestDoesNotResendWhenVisibilityLags(t *testing.T) {
	d := newTestDiffer(t)
	v := &visible{running: map[string]string{"vm/a/runs": "VirtualMachine"}, // and is listed nowhere
		terminated: []string{"vm/a/ended"}, unreadable: []string{"vm/a/broken", "vm/a/other",
			"vmi/a/broken"}}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	for _, name := range []string{"runs", "lost", "ended", "broken", "other"} {
		require.NoError(t, d.informers.VMs.GetStore().Add(&kubevirt.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)},
			Status:     kubevirt.VirtualMachineStatus{Created: name == "broken"}})) // its instance is gone
		d.entities.vm.sendChanged("a/"+name, change)
		waiting(d, "vm/a/"+name)
	}
	_, err := l.Resync(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{"observe-vm+ lost"}, waiting(d, "vm/a/lost"))
	require.Equal(t, []string{"observe-vm+ ended"}, waiting(d, "vm/a/ended"))
	require.Empty(t, outbox(d).pending)

	v.unreadable = append(v.unreadable, "vm/a/lost", "vm/a/ended", "vm/a/runs")
	next, err := l.Resync(t.Context(), false)
	require.ErrorContains(t, err, "its state is lost")
	require.Equal(t, confirmInterval, next)
}

// TestResendsOrphanedPod: its VMI is gone, and so is the workflow that would remove its finalizer. A pod whose VMI or
// workflow exists, or that has no finalizer of virtflow's, is not sent again.
func TestResendsOrphanedPod(t *testing.T) {
	d := newTestDiffer(t)
	v := &visible{}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	for _, name := range []string{"lost", "open", "free"} {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID("vmi-" + name),
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID("pod-" + name), Finalizers: []string{contract.FinalizerPod},
			OwnerReferences: controlledBy(vmi, "VirtualMachineInstance"),
		}}
		if name == "free" {
			pod.Finalizers = nil
		}
		require.NoError(t, d.informers.Pods.GetStore().Add(pod))
		d.sendPod("a/"+name, resync)
		waiting(d, "vmi/a/"+name)
	}
	v.executions = []*workflowpb.WorkflowExecutionInfo{
		running(t, contract.VMIID("a", "open"), map[string]string{contract.SearchUID: "vmi-open"})}
	_, err := l.Resync(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []string{"observe-pod+ pod-lost"}, waiting(d, "vmi/a/lost"))
	require.Empty(t, outbox(d).pending)
}

// TestSendsEndOfObjectWithLongName: the ID of its workflow has only a part of the name.
func TestSendsEndOfObjectWithLongName(t *testing.T) {
	server := fakekube.New(fakekube.Options{})
	kv, err := kube.New(server.Config())
	require.NoError(t, err)
	d := newTestDiffer(t)
	v := &visible{}
	l := newTestResyncer(d, Clients{KubeVirt: kv, Temporal: v})
	namespace, name := strings.Repeat("n", 63), strings.Repeat("a", 250)
	for _, name := range []string{"web", name} {
		v.executions = append(v.executions, running(t, contract.VMID(namespace, name), map[string]string{
			contract.SearchNamespace: namespace, contract.SearchName: name, contract.SearchUID: "u",
		}))
	}
	_, err = l.Resync(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, []string{"observe-vm u"}, waiting(l.differ, contract.VMID(namespace, "web")))
	require.Equal(t, []string{"observe-vm u"}, waiting(l.differ, contract.VMID(namespace, name)))
}

// TestSendsEndOfInstanceToVMOnce: the VM's workflow may take minutes to process it under load. A workflow that began
// after it is sent the end again.
func TestSendsEndOfInstanceToVMOnce(t *testing.T) {
	server := fakekube.New(fakekube.Options{})
	kv, err := kube.New(server.Config())
	require.NoError(t, err)
	d := newTestDiffer(t)
	v := &visible{running: map[string]string{"vm/a/web": "VirtualMachine"}}
	l := newTestResyncer(d, Clients{KubeVirt: kv, Temporal: v})
	d = l.differ
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"},
		Status: kubevirt.VirtualMachineStatus{Created: true}}
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	d.entities.vm.sendChanged("a/web", change)
	began := running(t, "vm/a/web", map[string]string{
		contract.SearchNamespace: "a", contract.SearchName: "web", contract.SearchUID: "v"})
	began.StartTime = timestamppb.Now()
	v.executions = []*workflowpb.WorkflowExecutionInfo{began}
	v.closed = []*workflowpb.WorkflowExecutionInfo{
		running(t, "vmi/a/web", map[string]string{contract.SearchUID: "i"})}
	look := func() []string {
		_, err := l.Resync(t.Context(), false)
		require.NoError(t, err)
		return waiting(d, "vm/a/web")
	}
	waiting(d, "vm/a/web")
	require.Equal(t, []string{"observe-vmi i"}, look(), "no informer has seen its end")

	d.entities.vmi.sendGone(&kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "web", UID: "i", OwnerReferences: controlledBy(vm, "VirtualMachine")}}, change)
	require.Equal(t, []string{"observe-vmi i"}, waiting(d, "vm/a/web"))
	require.Empty(t, look())
	require.Empty(t, look())
	began.StartTime = timestamppb.Now()
	require.Equal(t, []string{"observe-vmi i"}, look(), "its workflow was lost, and runs again")
}
