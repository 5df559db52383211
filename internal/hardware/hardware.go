package hardware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	kubevirt "kubevirt.io/api/core/v1"
)

// Variable is the launcher's environment variable with the hardware as JSON; none means Default.
const Variable = "HARDWARE"

// balloonStats is KubeVirt's default for memBalloonStatsPeriod, in seconds.
const balloonStats = 10

// KubeVirt's defaults for Disks.
const (
	reserve      = 128 << 10
	tolerateLess = 10
	probeMemory  = 2000 << 20
)

// Hardware is the same for all guests of a cluster.
type Hardware struct {
	// BalloonStats is the interval in seconds at which QEMU reads the memory statistics of the guest's balloon driver;
	// 0: never.
	BalloonStats uint32 `json:"balloonStats"`
	// SMBIOS is the maker of the machine, as the guest's firmware reports it.
	SMBIOS kubevirt.SMBiosConfiguration `json:"smbios"`
	Disks  Disks                        `json:"disks"`
}

// Disks has limits for what launchers do with the files behind disks.
type Disks struct {
	// Reserve is the space that stays free beside the file that is made on a PVC, in bytes.
	Reserve int64 `json:"reserve"`
	// TolerateLess is the percentage by which that file may be smaller than requested.
	TolerateLess int64 `json:"tolerateLess"`
	// ProbeMemory is the memory that qemu-img may use to read a container disk's image, in bytes: the image is
	// untrusted.
	ProbeMemory uint64 `json:"probeMemory"`
}

// Default returns KubeVirt's defaults.
func Default() Hardware {
	return Hardware{BalloonStats: balloonStats, SMBIOS: kubevirt.SMBiosConfiguration{
		Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"},
		Disks: Disks{Reserve: reserve, TolerateLess: tolerateLess, ProbeMemory: probeMemory}}
}

// From reads a configuration. SMBIOS fields that it leaves out keep KubeVirt's default, as in KubeVirt.
func From(c *kubevirt.KubeVirtConfiguration) Hardware {
	h := Default()
	if c.MemBalloonStatsPeriod != nil {
		h.BalloonStats = *c.MemBalloonStatsPeriod
	}
	if s := c.SMBIOSConfig; s != nil {
		h.SMBIOS = kubevirt.SMBiosConfiguration{
			Manufacturer: cmp.Or(s.Manufacturer, h.SMBIOS.Manufacturer),
			Product:      cmp.Or(s.Product, h.SMBIOS.Product),
			Version:      s.Version,
			Sku:          s.Sku,
			Family:       cmp.Or(s.Family, h.SMBIOS.Family),
		}
	}
	if d := c.DeveloperConfiguration; d != nil {
		h.Disks.from(d)
	}
	return h
}

// from reads a configuration; as in KubeVirt, 0 means that the field is not set.
func (d *Disks) from(c *kubevirt.DeveloperConfiguration) {
	if n := c.MinimumReservePVCBytes; n > 0 && n <= math.MaxInt64 {
		d.Reserve = int64(n)
	}
	if n := c.LessPVCSpaceToleration; n > 0 && n <= 100 {
		d.TolerateLess = int64(n)
	}
	if v := c.DiskVerification; v != nil && v.MemoryLimit != nil && v.MemoryLimit.Sign() > 0 {
		d.ProbeMemory = uint64(v.MemoryLimit.Value()) // checked to be positive
	}
}

// Encode returns the value of Variable; "" for the default.
func (h Hardware) Encode() (string, error) {
	if h == Default() {
		return "", nil
	}
	value, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encoding the hardware: %w", err)
	}
	// Kubernetes expands references that begin with a dollar sign in a variable's value.
	return strings.ReplaceAll(string(value), "$", `\u0024`), nil
}

// Decode parses the value of Variable.
func Decode(value string) (Hardware, error) {
	h := Default()
	if value == "" {
		return h, nil
	}
	if err := json.Unmarshal([]byte(value), &h); err != nil {
		return Hardware{}, fmt.Errorf("reading the environment variable %s: %w", Variable, err)
	}
	return h, nil
}
