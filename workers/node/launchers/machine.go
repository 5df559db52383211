package launchers

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
)

const (
	// downwardPath leads from a pod's directory to the kubelet's volume with the VMI of a launcher.
	downwardPath = "volumes/kubernetes.io~downward-api/" + contract.VolumeVMI
	// maxVMI is more than all annotations of a pod may have together, in bytes.
	maxVMI = 512 << 10
)

// Machine has what Kubernetes has given a pod about its VMI. It does not come from the launcher.
type Machine struct {
	VMI    contract.Object
	Labels map[string]string
	// Disks and Interfaces are the names in the spec.
	Disks, Interfaces []string
	// VCPUs is how many virtual CPUs the guest may have, with those that can be plugged in.
	VCPUs uint32
}

// Machine reads the VMI of a pod from the file that the kubelet has written for the launcher. It is as it was when the
// pod was created.
func (d Dialer) Machine(uid string) (Machine, error) {
	f, err := openVMI(d.KubeletDir, uid)
	if err != nil {
		return Machine{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxVMI+1))
	if err != nil {
		return Machine{}, fmt.Errorf("reading the VMI of pod %s: %w", uid, err)
	}
	if len(content) > maxVMI {
		return Machine{}, fmt.Errorf("reading the VMI of pod %s: it has more than %d bytes", uid, maxVMI)
	}
	return parseMachine(uid, content)
}

func parseMachine(uid string, content []byte) (Machine, error) {
	type named struct {
		Name string `json:"name"`
	}
	var vmi struct {
		Metadata struct {
			Namespace string            `json:"namespace"`
			Name      string            `json:"name"`
			UID       string            `json:"uid"`
			Labels    map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Domain struct {
				cpuSpec
				Devices struct {
					Disks      []named `json:"disks"`
					Interfaces []named `json:"interfaces"`
				} `json:"devices"`
			} `json:"domain"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(content, &vmi); err != nil {
		return Machine{}, fmt.Errorf("reading the VMI of pod %s: %w", uid, err)
	}
	m := Machine{
		VMI:    contract.Object{Namespace: vmi.Metadata.Namespace, Name: vmi.Metadata.Name, UID: vmi.Metadata.UID},
		Labels: contract.MetricLabels(vmi.Metadata.Labels),
		VCPUs:  vmi.Spec.Domain.mostVCPUs(),
	}
	for _, disk := range vmi.Spec.Domain.Devices.Disks {
		m.Disks = append(m.Disks, disk.Name)
	}
	for _, i := range vmi.Spec.Domain.Devices.Interfaces {
		m.Interfaces = append(m.Interfaces, i.Name)
	}
	return m, nil
}

// openVMI opens the file with the VMI of a pod. The kubelet, and not the user of the pod, owns the volume, in which it
// leads to the current version of the file by links. No link leads out of the volume.
func openVMI(kubeletDir, uid string) (*os.File, error) {
	if !IsValidPodUID(uid) {
		return nil, fmt.Errorf("%q is not the UID of a pod", sanitize(uid, 64))
	}
	dir := filepath.Join(Pods(kubeletDir), uid)
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer unix.Close(parent)
	volume, err := unix.Openat2(parent, downwardPath, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("opening %s in %s: %w", downwardPath, dir, err)
	}
	defer unix.Close(volume)
	fd, err := unix.Openat2(volume, contract.FileVMI, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the VMI in %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), contract.FileVMI)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in %s is not a file", contract.FileVMI, dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
