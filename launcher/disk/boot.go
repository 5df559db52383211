package disk

import (
	"os"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

// bootVolume names the image of firmware.kernelBoot in errors.
const bootVolume = "kernel-boot"

// Boot finds the kernel and the initial RAM disk that the firmware starts, in the image of firmware.kernelBoot, which
// is mounted at dir. Without that image it returns a zero Boot. As with a containerDisk, the image's author controls
// its content.
func Boot(vmi *v1.VirtualMachineInstance, dir string) (domain.Boot, error) {
	var out domain.Boot
	f := vmi.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil {
		return out, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return out, volumeError(bootVolume, "the image is not mounted: %v", err)
	}
	defer root.Close()
	for name, path := range map[string]*string{
		f.KernelBoot.Container.KernelPath: &out.Kernel, f.KernelBoot.Container.InitrdPath: &out.Initrd,
	} {
		if name == "" {
			continue
		}
		if *path, err = within(root, bootVolume, name); err != nil {
			return out, err
		}
	}
	return out, nil
}
