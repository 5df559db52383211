package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// object describes what a run creates: VMs, or standalone VMIs.
type object struct {
	plural  string // for people
	kind    string // for kubectl
	make    func(ctx context.Context, s *stage, name string) error
	started func(*machine) bool
	// replaced: a deleted VMI is replaced by another one.
	replaced bool
}

func (o options) object() object {
	if o.VMIs {
		return object{plural: "VMIs", kind: "vmi", make: makeVMI, started: runs}
	}
	return object{plural: "VMs", kind: "vm", make: makeVM, started: started, replaced: true}
}

func (s *stage) make(ctx context.Context, name string) error { return s.object().make(ctx, s, name) }

func makeVM(ctx context.Context, s *stage, name string) error {
	always := kubevirt.RunStrategyAlways
	_, err := s.kubevirt.VMs(s.namespace).Create(ctx, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec: kubevirt.VirtualMachineSpec{RunStrategy: &always,
			Template: &kubevirt.VirtualMachineInstanceTemplateSpec{Spec: s.spec()}},
	}, metav1.CreateOptions{})
	return err
}

func makeVMI(ctx context.Context, s *stage, name string) error {
	_, err := s.kubevirt.VMIs(s.namespace).Create(ctx, &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: s.spec(),
	}, metav1.CreateOptions{})
	return err
}

// spec returns the spec of each guest. A drain moves it if moves are measured.
func (o options) spec() kubevirt.VirtualMachineInstanceSpec {
	spec := small()
	if o.FailingMoves > 0 {
		moves := kubevirt.EvictionStrategyLiveMigrate
		spec.EvictionStrategy = &moves
	}
	return spec
}

// small returns the spec of a small guest on a simulated node.
func small() kubevirt.VirtualMachineInstanceSpec {
	memory := resource.MustParse("64Mi")
	return kubevirt.VirtualMachineInstanceSpec{
		NodeSelector: map[string]string{labelSimulated: "true"},
		Tolerations:  []corev1.Toleration{{Key: labelSimulated, Operator: corev1.TolerationOpExists}},
		Domain: kubevirt.DomainSpec{
			Memory: &kubevirt.Memory{Guest: &memory},
			Devices: kubevirt.Devices{
				Disks: []kubevirt.Disk{
					{Name: "root", DiskDevice: kubevirt.DiskDevice{
						Disk: &kubevirt.DiskTarget{Bus: kubevirt.DiskBusVirtio}}}},
				Interfaces: []kubevirt.Interface{*kubevirt.DefaultMasqueradeNetworkInterface()},
			},
		},
		Networks: []kubevirt.Network{*kubevirt.DefaultPodNetwork()},
		Volumes: []kubevirt.Volume{{Name: "root", VolumeSource: kubevirt.VolumeSource{
			ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/virtflow/guest:dev"},
		}}},
	}
}
