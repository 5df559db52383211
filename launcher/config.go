package launcher

import (
	"fmt"
	"path/filepath"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/state"
)

// Config has the paths and permissions of a launcher. Directories are inside the pod.
type Config struct {
	VMIFile            string
	TerminationMessage string
	Socket             string
	// Libvirt is libvirtd's own socket.
	Libvirt        string
	Private        string
	Disks          string
	ContainerDisks string
	KernelBoot     string
	CloudInit      string
	UserData       string
	NetworkData    string
	// Files has a directory for each volume that is a Secret, a ConfigMap or the like.
	Files string
	// AccessCredentials has the Secrets that the VMI's accessCredentials name.
	AccessCredentials string
	// Claims has the mounted file systems of PVCs, and Devices the block devices of PVCs.
	Claims  string
	Devices string
	// State is the directory of the machine's persistent state (TPM, EFI variables): the file system of a PVC, or
	// empty.
	State      string
	ResolvConf string
	Emulator   string
	// AllowEmulation lets QEMU translate the guest's code where KVM does not work.
	AllowEmulation bool
	// Hardware has the cluster-wide settings for every guest's hardware.
	Hardware hardware.Hardware
	Version  string
}

// serial and the following return the sockets and logs of the guest's devices; the node worker opens them there.
func (c Config) serial() string    { return filepath.Join(c.Private, "virt-serial0") }
func (c Config) serialLog() string { return filepath.Join(c.Private, "virt-serial0.log") }
func (c Config) vnc() string       { return filepath.Join(c.Private, "virt-vnc") }
func (c Config) agent() string     { return filepath.Join(c.Private, "virt-agent") }

// usbRedirection returns the sockets for USB devices of callers.
func (c Config) usbRedirection() []string {
	var out []string
	for i := range kubevirtv1.UsbClientPassthroughMaxNumberOf {
		out = append(out, filepath.Join(c.Private, fmt.Sprintf("virt-usbredir-%d", i)))
	}
	return out
}

// state returns the PVC with the machine's persistent state.
func (c Config) state() state.Claim {
	return state.Claim{Root: c.State, Link: filepath.Join(c.Private, "state")}
}

// migrationSocket returns the socket from which the node worker fetches a migration's streams.
func (c Config) migrationSocket() string { return filepath.Join(filepath.Dir(c.Socket), "mig.sock") }

// migration returns the directory of the sockets that libvirt and QEMU use for a migration.
func (c Config) migration() string { return filepath.Join(c.Private, "mig") }

// devices returns the guest's devices to which callers may be connected.
func (c Config) devices() *attach.Devices {
	return attach.NewDevices(map[rpc.Device][]string{
		rpc.Device_DEVICE_SERIAL_CONSOLE: {c.serial()}, rpc.Device_DEVICE_VNC: {c.vnc()},
		rpc.Device_DEVICE_USB_REDIRECTION: c.usbRedirection(),
	})
}
