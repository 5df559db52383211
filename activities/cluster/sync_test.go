package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// change edits the VM as a user would, by a merge patch, and returns its generation. (A real API server counts
// generations itself.)
func (w *world) change(t *testing.T, vm contract.Object, generation int64, patch string) int64 {
	t.Helper()
	if w.fake != nil {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(patch), &m))
		m["metadata"] = map[string]any{"generation": generation}
		raw, err := json.Marshal(m)
		require.NoError(t, err)
		patch = string(raw)
	}
	now, err := w.kubevirt.VMs(w.ns).
		Patch(t.Context(), vm.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	w.calls(t, "PATCH virtualmachines")
	return now.Generation
}

// TestSyncInstance: what needs no restart is applied, what does is reported, each by the same activity, done
// twice.
func TestSyncInstance(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, vm := w.vm(t)
	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("revision-start-vm-%s-%d", vm.UID, made.Generation), created.VMI.Revision)
	vmi := contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}
	pod, err := w.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	if w.fake != nil {
		w.fake.Calls()
	}

	// The run strategy says nothing about the instance.
	generation := w.change(t, vm, 2, `{"spec": {"runStrategy": "RerunOnFailure"}}`)
	in := contract.SyncInstanceInput{VM: vm, VMI: vmi, Generation: generation}
	out, err := w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Empty(t, out.RestartRequired)
	require.Equal(t, generation, out.VMI.VMGeneration)
	require.Equal(t, []string{"/metadata/annotations/kubevirt.io~1vm-generation"}, out.Patched)
	w.calls(t, "GET virtualmachines", "GET virtualmachineinstances", "GET controllerrevisions",
		"PATCH virtualmachineinstances")
	out, err = w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Empty(t, out.Patched)
	w.calls(t, "GET virtualmachines", "GET virtualmachineinstances", "GET controllerrevisions")

	// The template does, and the default rollout lets placement through. (The cluster's own settings decide.)
	generation = w.change(t, vm, 3, `{"spec": {"template": {
		"metadata": {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}, "spec": {"nodeSelector": {"zone": "b"}}}}}`)
	in.Generation = generation
	out, err = w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Empty(t, out.RestartRequired)
	require.Equal(t, []string{"nodeSelector.zone"}, out.Fields)
	require.ElementsMatch(t, []string{"/metadata/annotations/descheduler.alpha.kubernetes.io~1evict",
		"/spec/nodeSelector"}, out.Patched)
	require.Less(t, out.VMI.VMGeneration, generation, "the template is another one until the next start")
	stored, err := w.kubevirt.VMIs(w.ns).Get(ctx, vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "b"}, stored.Spec.NodeSelector)
	p, err := w.kubernetes.CoreV1().Pods(w.ns).Get(ctx, pod.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "true", p.Annotations["descheduler.alpha.kubernetes.io/evict"])

	// While the guest is moved it stays as it is, and the error says so.
	if w.fake != nil {
		w.fake.Calls()
	}
	stored.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "m"}
	_, err = w.kubevirt.VMIs(w.ns).Update(ctx, stored, metav1.UpdateOptions{})
	require.NoError(t, err)
	w.calls(t, "PUT virtualmachineinstances")
	in.Generation = w.change(t, vm, 4, `{"spec": {"template": {
		"metadata": {"annotations": {"descheduler.alpha.kubernetes.io/evict": null}}, "spec": {"nodeSelector": {"zone": "c"}}}}}`)
	_, err = w.SyncInstance(ctx, in)
	require.ErrorContains(t, err, "Node affinity should not be changed during VMI migration")
	stored, err = w.kubevirt.VMIs(w.ns).Get(ctx, vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"zone": "b"}, stored.Spec.NodeSelector)
	require.NotContains(t, stored.Annotations, "descheduler.alpha.kubernetes.io/evict", "that is no reason to wait")
	stored.Status.MigrationState = nil
	_, err = w.kubevirt.VMIs(w.ns).Update(ctx, stored, metav1.UpdateOptions{})
	require.NoError(t, err)
	out, err = w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Equal(t, []string{"/spec/nodeSelector"}, out.Patched)

	// The name cannot be changed while it runs.
	if w.fake != nil {
		w.fake.Calls()
	}
	in.Generation = w.change(t, vm, 5, `{"spec": {"template": {"spec": {"hostname": "other"}}}}`)
	for range 2 {
		out, err = w.SyncInstance(ctx, in)
		require.NoError(t, err)
		require.Equal(t, "a non-live-updatable field was changed in the template spec: hostname", out.RestartRequired)
		require.Equal(t, []string{"hostname"}, out.Fields)
		require.Nil(t, out.VMI)
		w.calls(t, "GET virtualmachines", "GET virtualmachineinstances", "GET controllerrevisions")
	}

	// A record that was removed, another instance of the name, an older read.
	require.NoError(t, w.kubernetes.AppsV1().ControllerRevisions(w.ns).
		Delete(ctx, created.VMI.Revision, metav1.DeleteOptions{}))
	out, err = w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Empty(t, out.RestartRequired)
	in.Generation += 100
	_, err = w.SyncInstance(ctx, in)
	require.ErrorContains(t, err, "was read at generation")
	in.Generation, in.VMI.UID = 0, "ffffffff-0000-4000-8000-000000000000"
	_, err = w.SyncInstance(ctx, in)
	require.Equal(t, contract.ErrorGone, errorType(err))
}

// TestDefaultsWrittenDown: a template that says what the instance has by default changes nothing of it.
func TestDefaultsWrittenDown(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, vm := w.vm(t)
	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	if w.fake != nil {
		w.fake.Calls()
	}
	in := contract.SyncInstanceInput{VM: vm, VMI: contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}}
	in.Generation = w.change(t, vm, 2, `{"spec": {"template": {"spec": {"domain": {
		"cpu": {"cores": 1, "sockets": 1, "threads": 1, "model": "host-model"}}}}}}`)
	out, err := w.SyncInstance(ctx, in)
	require.NoError(t, err)
	require.Empty(t, out.RestartRequired)
	require.Empty(t, out.Fields)
	require.Equal(t, in.Generation, out.VMI.VMGeneration)
}

// TestStageLeavesPlacementForTheNextStart: with the rollout strategy Stage a changed placement takes effect at the next
// start.
func TestStageLeavesPlacementForTheNextStart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, vm := w.vm(t)
	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	staged, err := cluster.New(cluster.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, LauncherImage: "l", Log: zerolog.Nop(),
		Record: fakekube.Record(w.kubernetes),
		Settings: func() settings.Settings {
			s := settings.Default()
			stage := kubevirt.VMRolloutStrategyStage
			s.Configuration.VMRolloutStrategy = &stage
			return s
		},
	})
	require.NoError(t, err)
	if w.fake != nil {
		w.fake.Calls()
	}
	generation := w.change(t, vm, 2, `{"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}`)
	out, err := staged.SyncInstance(ctx,
		contract.SyncInstanceInput{VM: vm, VMI: contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID},
			Generation: generation})
	require.NoError(t, err)
	require.NotEmpty(t, out.RestartRequired)
	require.Empty(t, out.Patched)
}

// revisions are the names of what is kept of the VM's specifications.
func (w *world) revisions(t *testing.T, vm contract.Object) []string {
	t.Helper()
	list, err := w.kubernetes.AppsV1().ControllerRevisions(w.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	for _, r := range list.Items {
		if strings.HasPrefix(r.Name, "revision-start-vm-"+vm.UID) {
			out = append(out, r.Name)
		}
	}
	if w.fake != nil {
		w.fake.Calls()
	}
	return out
}

// TestKeepsOneRevision: a start keeps the VM's specification, finds one that is there, and removes that of the start
// before: by its name where it is known, or by a look at all of them.
func TestKeepsOneRevision(t *testing.T) {
	for name, known := range map[string]bool{"known": true, "not known any more": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx := t.Context()
			made, vm := w.vm(t)
			first, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm})
			require.NoError(t, err)
			_, err = w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm, Revision: first.VMI.Revision})
			require.NoError(t, err)
			require.Equal(t, []string{first.VMI.Revision}, w.revisions(t, vm), "the same again")

			// The instance has followed edits of the run strategy since: the status has a generation that has no
			// revision.
			out, err := w.PatchVM(ctx,
				contract.PatchVMInput{VM: vm, ResourceVersion: made.ResourceVersion,
					Status: &contract.VMStatus{ObservedGeneration: 5, RunStrategy: "Always"}})
			require.NoError(t, err)
			require.True(t, out.Written)
			if w.fake != nil {
				w.fake.Calls()
			}
			w.change(t, vm, 6, `{"spec": {"template": {"spec": {"hostname": "other"}}}}`)
			in := contract.CreateVMIInput{VM: vm}
			if known {
				in.Revision = first.VMI.Revision
			}
			vmi, err := w.kubevirt.VMIs(w.ns).Get(ctx, "web", metav1.GetOptions{})
			require.NoError(t, err)
			vmi.Finalizers = nil
			_, err = w.kubevirt.VMIs(w.ns).Update(ctx, vmi, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.NoError(t, w.kubevirt.VMIs(w.ns).Delete(ctx, "web", metav1.DeleteOptions{}))
			_, err = w.CreateVMI(ctx, in)
			require.NoError(t, err)
			left := w.revisions(t, vm)
			require.Len(t, left, 1)
			require.NotEqual(t, first.VMI.Revision, left[0])
		})
	}
}

// TestRevisionThatCannotBeRemoved: the instance is made, so that this is no refusal of it.
func TestRevisionThatCannotBeRemoved(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("needs an API server that fails on demand")
	}
	_, vm := w.vm(t)
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Call() != "DELETE controllerrevisions" {
			return nil
		}
		status := apierrors.NewForbidden(schema.GroupResource{}, r.Name, errors.New("no")).Status()
		return &fakekube.Fault{Status: &status}
	})
	_, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Revision: "before"})
	require.ErrorContains(t, err, "deleting ControllerRevision before")
	require.Equal(t, "Kubernetes", errorType(err))
	_, err = w.kubevirt.VMIs(w.ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
}

// TestRequestsBeyondThoseObservedStay: a status write that drops the first of very many requests loses none of the
// others.
func TestRequestsBeyondThoseObservedStay(t *testing.T) {
	w := newWorld(t)
	made, vm := w.vm(t)
	var all []contract.StateChangeRequest
	for i := range 70 {
		all = append(all, contract.StateChangeRequest{Action: "Stop",
			UID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)})
	}
	out, err := w.PatchVM(t.Context(),
		contract.PatchVMInput{VM: vm, ResourceVersion: made.ResourceVersion,
			Status: &contract.VMStatus{StateChangeRequests: all}})
	require.NoError(t, err)
	seen := out.Current
	require.Len(t, seen.StateChangeRequests, 64)
	require.Equal(t, 6, seen.MoreRequests)

	// Nothing about them has changed: they are not written.
	out, err = w.PatchVM(t.Context(),
		contract.PatchVMInput{VM: vm, ResourceVersion: seen.ResourceVersion,
			Status: &contract.VMStatus{PrintableStatus: "Stopped"}, KeepRequests: true})
	require.NoError(t, err)
	require.Equal(t, 6, out.Current.MoreRequests)
	// The first is dropped.
	out, err = w.PatchVM(t.Context(), contract.PatchVMInput{
		VM: vm, ResourceVersion: out.Current.ResourceVersion,
		Status: &contract.VMStatus{StateChangeRequests: seen.StateChangeRequests[1:]}, MoreRequests: 6,
	})
	require.NoError(t, err)
	require.True(t, out.Written)
	require.Equal(t, all[1:65], out.Current.StateChangeRequests)
	require.Equal(t, 5, out.Current.MoreRequests)
}

// TestAPodThatCouldNotBeAnnotatedIsAnnotatedByTheNextAttempt: the pod follows although the attempt before got half way.
func TestAPodThatCouldNotBeAnnotatedIsAnnotatedByTheNextAttempt(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("only the fake fails to order")
	}
	ctx := t.Context()
	_, vm := w.vm(t)
	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	vmi := contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}
	pod, err := w.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	if w.fake != nil {
		w.fake.Calls()
	}
	in := contract.SyncInstanceInput{VM: vm, VMI: vmi}
	in.Generation = w.change(t, vm, 2,
		`{"spec": {"template": {"metadata": {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}}}}`)
	for _, resource := range []string{"pods", "virtualmachineinstances"} {
		w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
			if r.Call() == "PATCH "+resource {
				return &fakekube.Fault{Status: &apierrors.NewInternalError(errors.New("broken")).ErrStatus}
			}
			return nil
		})
		_, err = w.SyncInstance(ctx, in)
		require.ErrorContains(t, err, "broken", resource)
	}
	w.fake.Intercept(nil)
	_, err = w.SyncInstance(ctx, in)
	require.NoError(t, err)
	const key = "descheduler.alpha.kubernetes.io/evict"
	p, err := w.kubernetes.CoreV1().Pods(w.ns).Get(ctx, pod.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "true", p.Annotations[key])
	stored, err := w.kubevirt.VMIs(w.ns).Get(ctx, vmi.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "true", stored.Annotations[key])
}
