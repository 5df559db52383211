package world

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// users sends what users write through the API server's admission.
type users struct {
	webhooks map[string]*admission.Webhook
}

// configuration returns the cluster's KubeVirt configuration.
func (w *World) configuration() defaults.Cluster {
	strategy := kubevirt.VMRolloutStrategyStage
	if w.LiveUpdate {
		strategy = kubevirt.VMRolloutStrategyLiveUpdate
	}
	c := kubevirt.KubeVirtConfiguration{VMRolloutStrategy: &strategy,
		NetworkConfiguration: &kubevirt.NetworkConfiguration{NetworkInterface: "masquerade"}}
	if kv := kube.Get[kubevirt.KubeVirt](w.Kube, systemNamespace, "kubevirt"); kv != nil {
		c.MigrationConfiguration = kv.Spec.Configuration.MigrationConfiguration
	}
	return defaults.Cluster{Architecture: "amd64", Configuration: c}
}

func newUsers(w *World) (*users, error) {
	u := &users{webhooks: map[string]*admission.Webhook{}}
	for path, h := range virtadmission.Handlers(virtadmission.Options{
		Cluster: func(context.Context) (defaults.Cluster, error) { return w.configuration(), nil }, Now: w.Now,
		Reader: reader{w},
	}) {
		webhook, ok := h.(*admission.Webhook)
		if !ok {
			return nil, fmt.Errorf("the handler of %s is no webhook", path)
		}
		u.webhooks[path] = webhook
	}
	return u, nil
}

// admit passes an object through the mutating and the validating webhook.
func (u *users) admit(mutate, validate string, old, object, into runtime.Object) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create,
		Resource:  metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: resourceOf(mutate)},
		Namespace: Namespace, UserInfo: authenticationv1.UserInfo{Username: "alice"},
		Object: runtime.RawExtension{Raw: raw},
	}}
	if old != nil {
		before, err := json.Marshal(old)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: before}
	}
	answer := u.webhooks[mutate].Handle(context.Background(), req)
	if !answer.Allowed {
		return fmt.Errorf("refused by %s: %s", mutate, answer.Result.Message)
	}
	if len(answer.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(answer.Patch)
		if err != nil {
			return fmt.Errorf("reading the webhook's patch: %w", err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			return fmt.Errorf("applying the webhook's patch: %w", err)
		}
	}
	req.Object.Raw = raw
	if answer := u.webhooks[validate].Handle(context.Background(), req); !answer.Allowed {
		return fmt.Errorf("refused by %s: %s", validate, answer.Result.Message)
	}
	return json.Unmarshal(raw, into)
}

func resourceOf(webhook string) string {
	switch webhook {
	case virtadmission.PathMutateVM:
		return "virtualmachines"
	case virtadmission.PathMutateVMIRS:
		return "virtualmachineinstancereplicasets"
	case virtadmission.PathMutateVMIM:
		return "virtualmachineinstancemigrations"
	default:
		return "virtualmachineinstances"
	}
}

// Machine returns the manifest of a VM as a user writes it.
func Machine(name string, strategy kubevirt.VirtualMachineRunStrategy) *kubevirt.VirtualMachine {
	memory := resource.MustParse("128Mi")
	return &kubevirt.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: kubevirt.VirtualMachineSpec{
			RunStrategy: &strategy,
			Template: &kubevirt.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       instanceSpec(memory),
			},
		},
	}
}

func instanceSpec(memory resource.Quantity) kubevirt.VirtualMachineInstanceSpec {
	grace := int64(30)
	return kubevirt.VirtualMachineInstanceSpec{
		TerminationGracePeriodSeconds: &grace,
		Domain: kubevirt.DomainSpec{
			Memory: &kubevirt.Memory{Guest: &memory},
			Devices: kubevirt.Devices{
				Disks: []kubevirt.Disk{{Name: "root",
					DiskDevice: kubevirt.DiskDevice{Disk: &kubevirt.DiskTarget{Bus: "virtio"}}}}},
		},
		Volumes: []kubevirt.Volume{
			{Name: "root", VolumeSource: kubevirt.VolumeSource{
				ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/guest:1"}}},
			{Name: "init", VolumeSource: kubevirt.VolumeSource{
				CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{UserData: "#cloud-config\npassword: hunter2\n"}}},
		},
	}
}

// Create creates a VM.
func (w *World) Create(vm *kubevirt.VirtualMachine) {
	w.tracef("user: create VM %s (%s)", vm.Name, *vm.Spec.RunStrategy)
	admitted := &kubevirt.VirtualMachine{}
	err := w.users.admit(virtadmission.PathMutateVM, virtadmission.PathValidateVM, nil, vm, admitted)
	if err == nil {
		_, err = kube.Put(w.Kube, admitted)
	}
	w.userError(err)
}

// CreateInstance creates a VMI without a VM.
func (w *World) CreateInstance(name string) {
	w.tracef("user: create VMI %s", name)
	vmi := &kubevirt.VirtualMachineInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       instanceSpec(resource.MustParse("128Mi")),
	}
	admitted := &kubevirt.VirtualMachineInstance{}
	err := w.users.admit(virtadmission.PathMutateVMI, virtadmission.PathValidateVMI, nil, vmi, admitted)
	if err == nil {
		_, err = kube.Put(w.Kube, admitted)
	}
	w.userError(err)
}

// Edit changes a VM's object.
func (w *World) Edit(name string, change func(*kubevirt.VirtualMachine)) {
	old := w.VM(name)
	if old == nil {
		return
	}
	next := old.DeepCopy()
	change(next)
	admitted := &kubevirt.VirtualMachine{}
	err := w.users.admit(virtadmission.PathMutateVM, virtadmission.PathValidateVM, old, next, admitted)
	if err == nil {
		_, err = kube.Edit(w.Kube, Namespace, name, "", func(vm *kubevirt.VirtualMachine) {
			vm.Spec, vm.Annotations, vm.Labels = admitted.Spec, admitted.Annotations, admitted.Labels
		})
	}
	w.userError(err)
}

// SetStrategy changes the run strategy, which starts and stops VMs that are Always or Halted.
func (w *World) SetStrategy(name string, s kubevirt.VirtualMachineRunStrategy) {
	w.tracef("user: VM %s: run strategy %s", name, s)
	w.Edit(name, func(vm *kubevirt.VirtualMachine) { vm.Spec.RunStrategy = &s })
}

// Request adds state change requests, as virtctl start, stop and restart do. A stop names the present instance.
func (w *World) Request(name string, actions ...kubevirt.StateChangeRequestAction) {
	w.tracef("user: VM %s: request %v", name, actions)
	var requests []kubevirt.VirtualMachineStateChangeRequest
	for _, a := range actions {
		r := kubevirt.VirtualMachineStateChangeRequest{Action: a}
		if a == kubevirt.StopRequest {
			vmi := w.VMI(name)
			if vmi == nil {
				return // the API server refuses to stop an absent instance
			}
			uid := vmi.UID
			r.UID = &uid
		}
		requests = append(requests, r)
	}
	_, err := kube.Edit(w.Kube, Namespace, name, "status", func(vm *kubevirt.VirtualMachine) {
		vm.Status.StateChangeRequests = requests
	})
	w.userError(err)
}

// Restart requests a restart.
func (w *World) Restart(name string) { w.Request(name, kubevirt.StopRequest, kubevirt.StartRequest) }

// CreateSet creates a replica set.
func (w *World) CreateSet(name string, replicas int32) {
	w.tracef("user: create replica set %s of %d", name, replicas)
	labels := map[string]string{"set": name}
	set := &kubevirt.VirtualMachineInstanceReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstanceReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: &kubevirt.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: instanceSpec(resource.MustParse("128Mi")),
			},
		},
	}
	admitted := &kubevirt.VirtualMachineInstanceReplicaSet{}
	err := w.users.admit(virtadmission.PathMutateVMIRS, virtadmission.PathValidateVMIRS, nil, set, admitted)
	if err == nil {
		_, err = kube.Put(w.Kube, admitted)
	}
	w.userError(err)
}

// Scale sets the number of replicas past the webhooks, as the scale subresource does.
func (w *World) Scale(name string, replicas int32) {
	w.tracef("user: scale %s to %d", name, replicas)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(set *kubevirt.VirtualMachineInstanceReplicaSet) {
		set.Spec.Replicas = &replicas
	})
	w.userError(err)
}

// DeleteSet deletes a replica set; the garbage collector deletes its instances.
func (w *World) DeleteSet(name string) {
	w.tracef("user: delete replica set %s", name)
	w.userError(kube.Remove[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace, name, nil))
}

// Set returns the replica set, or nil.
func (w *World) Set(name string) *kubevirt.VirtualMachineInstanceReplicaSet {
	return kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, Namespace, name)
}

// Control sends a manual control to an entity, as a signal.
func (w *World) Control(workflow, control string, request contract.ControlRequest) {
	if request.Actor == "" {
		request.Actor = "bob"
	}
	w.tracef("user: %s: %s", workflow, control)
	w.released = w.released || control == contract.ControlRelease
	w.send(&delivery.Delivery{Workflow: workflow, Signal: control, Kind: "control", Payload: request})
}

// Delete deletes a VM.
func (w *World) Delete(name string) {
	w.tracef("user: delete VM %s", name)
	w.userError(kube.Remove[kubevirt.VirtualMachine](w.Kube, Namespace, name, nil))
}

// DeleteOrphaning deletes a VM and orphans its instance. The garbage collector removes the owner references before
// crdwatch observes the deletion.
func (w *World) DeleteOrphaning(name string) {
	w.tracef("user: delete VM %s --cascade=orphan", name)
	w.noteOrphans("controllerrevisions/")
	w.userError(kube.Orphan[kubevirt.VirtualMachine](w.Kube, Namespace, name))
}

// DeleteInstance deletes a VMI.
func (w *World) DeleteInstance(name string) {
	w.tracef("user: delete VMI %s", name)
	w.userError(kube.Remove[kubevirt.VirtualMachineInstance](w.Kube, Namespace, name, nil))
}

// Force sets a VMI's grace period to zero, as virtctl stop --force --grace-period 0 does.
func (w *World) Force(name string) {
	w.tracef("user: VMI %s: grace period 0", name)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(vmi *kubevirt.VirtualMachineInstance) {
		none := int64(0)
		vmi.Spec.TerminationGracePeriodSeconds = &none
	})
	w.userError(err)
}

// DeletePod deletes the launcher pod of a VMI, with a grace period in seconds where that is not nil.
func (w *World) DeletePod(name string, grace *int64) {
	pod := w.Pod(name)
	if pod == nil {
		return
	}
	w.tracef("user: delete pod %s", pod.Name)
	w.userError(kube.Remove[corev1.Pod](w.Kube, Namespace, pod.Name, grace))
}

// userError records the error that a user got; it is part of the story.
func (w *World) userError(err error) {
	if err != nil {
		w.tracef("user: refused: %v", err)
	}
	w.requested()
}

// VM returns the VM, or nil.
func (w *World) VM(name string) *kubevirt.VirtualMachine {
	return kube.Get[kubevirt.VirtualMachine](w.Kube, Namespace, name)
}

// VMI returns the VMI, or nil.
func (w *World) VMI(name string) *kubevirt.VirtualMachineInstance {
	return kube.Get[kubevirt.VirtualMachineInstance](w.Kube, Namespace, name)
}

// Pod returns the newest launcher pod of a VMI, or nil.
func (w *World) Pod(name string) *corev1.Pod {
	var found *corev1.Pod
	for _, p := range kube.List[corev1.Pod](w.Kube, Namespace) {
		if ref := metav1.GetControllerOf(p); ref != nil && ref.Name == name &&
			(found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp)) {
			found = p
		}
	}
	return found
}

// Launcher returns the launcher whose domain runs, or nil.
func (w *World) Launcher(name string) *launcher {
	for _, l := range w.domains {
		if l.key() == Namespace+"/"+name {
			return l
		}
	}
	return nil
}
