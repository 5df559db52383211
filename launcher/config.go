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

// Config says where things are and what is allowed. Directories are the pod's own.
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
	// Files has those of each Secret, ConfigMap and the like that is a volume.
	Files string
	// AccessCredentials has the Secrets that the VMI's accessCredentials name.
	AccessCredentials string
	// Claims has the file systems of claims, and Devices the claims that are devices.
	Claims  string
	Devices string
	// State has what the machine remembers from one launcher to the next: a claim's file system, or nothing.
	State      string
	ResolvConf string
	Emulator   string
	// AllowEmulation lets QEMU translate the guest's code where KVM does not work.
	AllowEmulation bool
	// Hardware is what the cluster's configuration says of every guest's.
	Hardware hardware.Hardware
	Version  string
}

// Sockets and logs of the guest's devices, where the node's worker finds them.
func (c Config) serial() string    { return filepath.Join(c.Private, "virt-serial0") }
func (c Config) serialLog() string { return filepath.Join(c.Private, "virt-serial0.log") }
func (c Config) vnc() string       { return filepath.Join(c.Private, "virt-vnc") }
func (c Config) agent() string     { return filepath.Join(c.Private, "virt-agent") }

// usbRedirection are the sockets for callers' USB devices.
func (c Config) usbRedirection() []string {
	var out []string
	for i := range kubevirtv1.UsbClientPassthroughMaxNumberOf {
		out = append(out, filepath.Join(c.Private, fmt.Sprintf("virt-usbredir-%d", i)))
	}
	return out
}

// state is where that is.
func (c Config) state() state.Claim {
	return state.Claim{Root: c.State, Link: filepath.Join(c.Private, "state")}
}

// migrationSocket is where the node's worker fetches a migration's streams.
func (c Config) migrationSocket() string { return filepath.Join(filepath.Dir(c.Socket), "mig.sock") }

// migration is the directory of the sockets that libvirt and QEMU use for a migration.
func (c Config) migration() string { return filepath.Join(c.Private, "mig") }

// devices are those of the guest that callers may be connected with.
func (c Config) devices() *attach.Devices {
	return attach.NewDevices(map[rpc.Device][]string{
		rpc.Device_DEVICE_SERIAL_CONSOLE: {c.serial()}, rpc.Device_DEVICE_VNC: {c.vnc()},
		rpc.Device_DEVICE_USB_REDIRECTION: c.usbRedirection(),
	})
}
