package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/activities/cluster/revision"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// maxFields limits how many differing fields are named.
const maxFields = 16

// SyncInstance compares a VM with the specification that its instance was started with, brings into the instance what
// can change while it runs, and says whether the rest needs a restart. What cannot change while the guest is moved is
// an error, once the rest is done. Idempotent: it patches what differs, and the patch tests that the instance is as it
// was read.
func (a *Activities) SyncInstance(
	ctx context.Context, in contract.SyncInstanceInput,
) (contract.SyncInstanceResult, error) {
	var out contract.SyncInstanceResult
	subject, err := a.readSubject(ctx, in)
	if err != nil {
		return out, err
	}
	v, err := revision.Compare(subject)
	if err != nil {
		return out, nonRetryable(contract.ErrorInvalid, err.Error())
	}
	out = contract.SyncInstanceResult{Generation: subject.VM.Generation, RestartRequired: v.RestartRequired,
		Fields: v.Fields[:min(len(v.Fields), maxFields)]}
	if len(v.Patch) == 0 {
		return out, wait(v)
	}
	body, err := json.Marshal(v.Patch)
	if err != nil {
		return out, fmt.Errorf("encoding a patch: %w", err)
	}
	// The pods go first: an attempt after a failure finds the instance as different as before, and comes by here
	// again.
	if err := a.annotatePods(ctx, subject); err != nil {
		return out, err
	}
	now, err := a.KubeVirt.VMIs(in.VM.Namespace).
		Patch(ctx, in.VMI.Name, types.JSONPatchType, body, metav1.PatchOptions{})
	switch {
	case apierrors.IsInvalid(err):
		return out, temporal.NewApplicationError("VirtualMachineInstance "+in.VMI.Name+
			" changed while it was compared with its VirtualMachine", errorKubernetes)
	case err != nil:
		return out, failure("patching VirtualMachineInstance "+in.VMI.Name, err)
	}
	out.Patched = revision.Changed(v.Patch)
	o := observe.VMIForVM(observe.VMI(now))
	out.VMI = &o
	return out, wait(v)
}

// wait returns the error of what has to be retried later, and not at once.
func wait(v revision.Verdict) error {
	if v.Refused == "" {
		return nil
	}
	return nonRetryable(contract.ErrorInvalid, v.Refused)
}

// readSubject reads the VM, its instance and the revision that the instance was started with.
func (a *Activities) readSubject(ctx context.Context, in contract.SyncInstanceInput) (revision.Subject, error) {
	s := revision.Subject{LiveUpdate: a.Settings().LiveUpdate()}
	var err error
	if s.VM, err = a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{}); err != nil {
		return s, failure("reading VirtualMachine "+in.VM.Name, err)
	}
	if string(s.VM.UID) != in.VM.UID {
		return s, goneError("VirtualMachine %s is another one by now (UID %s)", in.VM.Name, s.VM.UID)
	}
	if s.VM.Generation < in.Generation {
		return s, temporal.NewApplicationError(
			fmt.Sprintf("VirtualMachine %s was read at generation %d, wanted is %d", in.VM.Name, s.VM.Generation,
				in.Generation), errorKubernetes)
	}
	if s.VMI, err = a.KubeVirt.VMIs(in.VM.Namespace).Get(ctx, in.VMI.Name, metav1.GetOptions{}); err != nil {
		return s, failure("reading VirtualMachineInstance "+in.VMI.Name, err)
	}
	if string(s.VMI.UID) != in.VMI.UID {
		return s, goneError("VirtualMachineInstance %s is another one by now (UID %s)", in.VMI.Name, s.VMI.UID)
	}
	name := s.VMI.Status.VirtualMachineRevisionName
	if name == "" {
		return s, nil
	}
	kept, err := a.Kubernetes.AppsV1().ControllerRevisions(in.VM.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s, nil // the record was removed: nothing can be compared
	}
	if err != nil {
		return s, failure("reading ControllerRevision "+name, err)
	}
	if s.Last, err = revision.Spec(kept); err != nil {
		return s, nonRetryable(contract.ErrorInvalid, err.Error())
	}
	if next, err := instance.New(s.VM, a.Settings(), instance.Request{Now: a.Now()}); err == nil {
		s.Next = &next.Spec
	}
	return s, nil
}

// annotatePods sets on the launcher pods, as on the instance, the annotations of the VM's template that may change
// while they run.
func (a *Activities) annotatePods(ctx context.Context, s revision.Subject) error {
	wanted := map[string]string{}
	if t := s.VM.Spec.Template; t != nil {
		wanted = t.ObjectMeta.Annotations
	}
	change := merge{}
	for _, key := range revision.LiveAnnotations() {
		was, had := s.VMI.Annotations[key]
		is, has := wanted[key]
		switch {
		case has && (!had || was != is):
			change[key] = is
		case had && !has:
			change[key] = nil
		}
	}
	if len(change) == 0 {
		return nil
	}
	body, err := merge{"metadata": merge{"annotations": change}}.encode()
	if err != nil {
		return err
	}
	vmi := contract.Object{Namespace: s.VMI.Namespace, Name: s.VMI.Name, UID: string(s.VMI.UID)}
	pods, err := a.listLaunchers(ctx, vmi, nil)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		_, err := a.Kubernetes.CoreV1().Pods(vmi.Namespace).
			Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return failure("annotating pod "+pod.Name, err)
		}
	}
	return nil
}
