package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
)

// CreateLauncherPod makes the pod of an instance, after the PVC with its VM's persistent state and the Secret with
// its inline cloud-init data.
// An instance whose pod has run gets no other pod. An instance whose PVCs are not there yet, or are devices that the
// guest of another instance has, waits for them.
// Idempotent: all names derive from UIDs; if the instance controls a pod already, that pod is returned.
func (a *Activities) CreateLauncherPod(
	ctx context.Context, in contract.CreatePodInput,
) (contract.CreatePodResult, error) {
	vmi, err := a.readInstance(ctx, in.VMI)
	if err != nil {
		return contract.CreatePodResult{}, err
	}
	if vmi.DeletionTimestamp != nil {
		return contract.CreatePodResult{}, goneError("VirtualMachineInstance %s is being deleted", in.VMI.Name)
	}
	if o := observe.VMI(vmi); o.Begun() {
		return contract.CreatePodResult{Refused: "the instance is " + o.Phase +
			", and has had a pod that ran: it is never booted again", VMI: &o}, nil
	}
	if err := a.makeState(ctx, vmi); err != nil {
		return contract.CreatePodResult{}, a.recordPodRefusal(in.VMI, err)
	}
	out, own, err := a.checkPodPreconditions(ctx, vmi)
	if err != nil {
		return contract.CreatePodResult{}, a.recordPodRefusal(in.VMI, err)
	}
	if out.Awaits != nil {
		return a.discardEarlyPod(ctx, in.VMI, out, own)
	}
	made, err := a.makePod(ctx, vmi)
	if apierrors.IsAlreadyExists(err) {
		there := out.Claims
		out, err = a.existingPod(ctx, in.VMI, render.PodName(vmi.Name, string(vmi.UID)))
		out.Migratable, out.Claims = a.checkMigratable(ctx, vmi), there
		return out, err
	}
	if err != nil {
		return out, a.recordPodRefusal(in.VMI, err)
	}
	// The pod of another VMI may have been made at the same time: of two, exactly the second waits.
	if out.Awaits, _, err = a.findDeviceConflict(ctx, vmi, out.Claims, made.ResourceVersion); err != nil {
		return contract.CreatePodResult{}, a.recordPodRefusal(in.VMI, err)
	}
	if out.Awaits != nil {
		return a.discardEarlyPod(ctx, in.VMI, out, made)
	}
	a.recordEvent(kindVMI, in.VMI, normalEvent("SuccessfulCreate", "Created virtual machine pod "+made.Name),
		string(made.UID))
	out.Pod, out.Migratable = observe.Pod(made), a.checkMigratable(ctx, vmi)
	return out, nil
}

// checkPodPreconditions returns what an instance waits for before it gets a pod: PVCs that are not there yet, and
// devices that another guest has. Own is a pod that the instance must not have yet: an earlier attempt made it, and
// ended before it looked for a conflict. A pod that has begun has passed.
func (a *Activities) checkPodPreconditions(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance,
) (out contract.CreatePodResult, own *corev1.Pod, err error) {
	if out.Claims, out.Awaits, err = a.readClaims(ctx, vmi); err != nil || out.Awaits != nil {
		return out, nil, err
	}
	out.Awaits, own, err = a.findDeviceConflict(ctx, vmi, out.Claims, "")
	if own != nil && own.Status.Phase != corev1.PodPending {
		out.Awaits = nil
	}
	return out, own, err
}

// makePod makes the pod of an instance, and before it the Secret that it mounts. An error that the pod is there already
// is the API server's own.
func (a *Activities) makePod(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) (*corev1.Pod, error) {
	options := render.Options{Image: a.LauncherImage, PullPolicy: a.PullPolicy, Settings: a.Settings()}
	var err error
	if options.NetworkResources, err = a.networkResources(ctx, vmi); err != nil {
		return nil, err
	}
	if options.Limited.CPU, err = a.hasAutoCPULimit(ctx, vmi, options.Settings); err != nil {
		return nil, err
	}
	pod, err := render.Pod(vmi, options)
	if err != nil {
		return nil, nonRetryable(contract.ErrorInvalid, err.Error())
	}
	secret, err := render.Secret(vmi)
	if err != nil {
		return nil, nonRetryable(contract.ErrorInvalid, err.Error())
	}
	if secret != nil {
		_, err := a.Kubernetes.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, creationFailure("creating Secret "+secret.Name, err)
		}
	}
	made, err := a.createPod(ctx, pod, func(l render.Limited) (*corev1.Pod, error) {
		options.Limited = options.Limited.Or(l)
		return render.Pod(vmi, options)
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, creationFailure("creating pod "+pod.Name, err)
	}
	return made, err
}

// discardEarlyPod deletes the pod that an instance must not have yet (nil: there is none), and records in an event what
// the instance waits for.
func (a *Activities) discardEarlyPod(
	ctx context.Context, vmi contract.Object, out contract.CreatePodResult, pod *corev1.Pod,
) (contract.CreatePodResult, error) {
	if pod != nil {
		if err := a.discard(ctx, pod); err != nil {
			return contract.CreatePodResult{}, err
		}
		out.Discarded = string(pod.UID)
	}
	event := normalEvent(out.Awaits.Reason, out.Awaits.Message)
	if out.Awaits.Reason == contract.ReasonDataVolumeFailed {
		event = warningEvent(out.Awaits.Reason, out.Awaits.Message)
	}
	a.recordEvent(kindVMI, vmi, event, out.Awaits.Message)
	return out, nil
}

// hasAutoCPULimit reports whether the KubeVirt object asks for a CPU limit for the pods of an instance that sets
// none. Only where it selects by labels is the namespace read.
func (a *Activities) hasAutoCPULimit(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, s settings.Settings,
) (bool, error) {
	selector := s.AutoCPULimits()
	_, selects := selector.Requirements()
	_, limited := vmi.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
	switch {
	case !selects || limited:
		return false, nil
	case selector.Empty():
		return true, nil
	}
	namespace, err := a.Kubernetes.CoreV1().Namespaces().Get(ctx, vmi.Namespace, metav1.GetOptions{})
	if err != nil {
		return false, failure("reading namespace "+vmi.Namespace, err)
	}
	return selector.Matches(labels.Set(namespace.Labels)), nil
}

// createPod makes a pod. If that is forbidden, a quota may require limits: then it is rendered again with those. That
// costs two more requests, only after a refusal.
func (a *Activities) createPod(
	ctx context.Context, pod *corev1.Pod, again func(render.Limited) (*corev1.Pod, error),
) (*corev1.Pod, error) {
	pods := a.Kubernetes.CoreV1().Pods(pod.Namespace)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		return made, err
	}
	limited := a.readLimited(ctx, pod.Namespace)
	if limited == (render.Limited{}) {
		return nil, err
	}
	if pod, err = again(limited); err != nil {
		return nil, err
	}
	return pods.Create(ctx, pod, metav1.CreateOptions{})
}

// readLimited returns for which resources the namespace's quotas require limits. If they cannot be read, for none: the
// caller has a refusal to report. If the namespace cannot be read, the usual ratio of memory limits holds.
func (a *Activities) readLimited(ctx context.Context, namespace string) render.Limited {
	quotas, err := a.Kubernetes.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		a.Log.Warn().Err(err).Str("namespace", namespace).
			Msg("failed to read the quotas of a namespace that refused a pod")
		return render.Limited{}
	}
	limited := render.LimitedBy(quotas.Items)
	if !limited.Memory {
		return limited
	}
	object, err := a.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		a.Log.Warn().Err(err).Str("namespace", namespace).
			Msg("failed to read the labels of a namespace that refused a pod")
		return limited
	}
	return limited.WithRatio(object.Labels)
}

// readInstance returns the VMI as this process has made it within freshFor, for the first call, or as the API server
// has it.
func (a *Activities) readInstance(ctx context.Context, o contract.Object) (*kubevirt.VirtualMachineInstance, error) {
	if v, ok := a.fresh.Get(o.UID); ok {
		a.fresh.Remove(o.UID)
		if vmi, ok := v.(*kubevirt.VirtualMachineInstance); ok {
			return vmi, nil
		}
	}
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, failure("reading VirtualMachineInstance "+o.Name, err)
	}
	if string(vmi.UID) != o.UID {
		return nil, goneError("VirtualMachineInstance %s is another one by now (UID %s)", o.Name, vmi.UID)
	}
	return vmi, nil
}

func (a *Activities) recordPodRefusal(vmi contract.Object, err error) error {
	message := message(err)
	a.recordEvent(kindVMI, vmi, warningEvent(contract.ReasonFailedCreate, "Error creating pod: "+message), message)
	return err
}

func (a *Activities) existingPod(
	ctx context.Context, vmi contract.Object, name string,
) (contract.CreatePodResult, error) {
	found, err := a.findPod(ctx, vmi, name)
	switch {
	case err != nil:
		return contract.CreatePodResult{}, err
	case found == nil:
		return contract.CreatePodResult{},
			temporal.NewApplicationError("pod "+name+" was there a moment ago", errorKubernetes)
	case found.VMIUID != vmi.UID || found.Migration != "":
		return contract.CreatePodResult{}, a.recordPodRefusal(vmi, nonRetryable(contract.ErrorConflict,
			fmt.Sprintf("pod %s exists (UID %s) and does not belong to this VirtualMachineInstance: delete it", name,
				found.UID)))
	}
	return contract.CreatePodResult{Pod: *found}, nil
}

func (a *Activities) findPod(ctx context.Context, vmi contract.Object, name string) (*contract.PodObservation, error) {
	pod, err := a.Kubernetes.CoreV1().Pods(vmi.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // no such pod
	}
	if err != nil {
		return nil, failure("reading pod "+name, err)
	}
	o := observe.Pod(pod)
	return &o, nil
}

// listLaunchers returns the launcher pods of an instance, by name: those with its label and no other owner. A pod of
// those known is one of them as long as it exists, whatever its metadata is by now.
func (a *Activities) listLaunchers(
	ctx context.Context, vmi contract.Object, known []contract.Object,
) ([]contract.PodObservation, error) {
	labels := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(map[string]string{
		contract.LabelLauncher: contract.LabelLauncherValue, contract.LabelCreatedBy: vmi.UID}))
	list, err := a.Kubernetes.CoreV1().Pods(vmi.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return nil, failure("listing the pods of VirtualMachineInstance "+vmi.Name, err)
	}
	var out []contract.PodObservation
	for i := range list.Items {
		if o := observe.Pod(&list.Items[i]); o.VMIUID == vmi.UID {
			out = append(out, o)
		}
	}
	for _, pod := range known {
		if slices.ContainsFunc(out, func(o contract.PodObservation) bool { return o.UID == pod.UID }) {
			continue
		}
		found, err := a.findPod(ctx, vmi, pod.Name)
		if err != nil {
			return nil, err
		}
		if found != nil && found.UID == pod.UID {
			found.VMIUID = vmi.UID
			out = append(out, *found)
		}
	}
	return out, nil
}

// FindLauncherPod looks for the launcher pods of an instance. It only reads. Where none is known, the name that is
// derived from the instance's UID is looked for, too: a pod which has it, and does not say whose it is, is never taken
// for none.
func (a *Activities) FindLauncherPod(ctx context.Context, in contract.FindPodInput) (contract.FindPodResult, error) {
	pods, err := a.listLaunchers(ctx, in.VMI, in.Known)
	if err != nil || len(pods) > 0 || len(in.Known) > 0 {
		return contract.FoundPods(pods...), err
	}
	found, err := a.findPod(ctx, in.VMI, render.PodName(in.VMI.Name, in.VMI.UID))
	switch {
	case err != nil || found == nil:
		return contract.FindPodResult{}, err
	case found.VMIUID != in.VMI.UID:
		return contract.FindPodResult{}, nonRetryable(contract.ErrorConflict,
			fmt.Sprintf("pod %s exists (UID %s) and does not state that it belongs to this VirtualMachineInstance: "+
				"delete it", found.Name, found.UID))
	}
	return contract.FoundPods(*found), nil
}

// MarkPodUnpaused writes the readiness gate of a pod. Idempotent: the condition is one element of a list keyed by its
// type.
func (a *Activities) MarkPodUnpaused(ctx context.Context, in contract.MarkPodInput) error {
	condition := corev1.PodCondition{
		Type: contract.ConditionUnpaused, Status: corev1.ConditionTrue, Reason: "NotPaused",
		Message:            "the virtual machine is not paused",
		LastTransitionTime: metav1.NewTime(a.Now().UTC().Truncate(time.Second)),
	}
	if in.Paused {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "Paused",
			"the virtual machine is paused"
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": in.Pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = a.Kubernetes.CoreV1().Pods(in.Pod.Namespace).
		Patch(ctx, in.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if isOtherObject(err) {
		return goneError("pod %s is gone", in.Pod.Name)
	}
	if err != nil {
		return failure("writing the readiness gate of pod "+in.Pod.Name, err)
	}
	return nil
}

// isOtherObject reports whether an object is gone, or that its name belongs to one of another UID by now: a patch that
// names a UID is then refused as an attempt to change it. (A conflict says neither: the API server gave up merging into
// an object that changes often.)
func isOtherObject(err error) bool {
	if apierrors.IsNotFound(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// message returns the text of an application error, without the SDK's wrapping.
func message(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return err.Error()
}

func uidOf(s string) *types.UID {
	u := types.UID(s)
	return &u
}
