package hardware

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	kubevirt "kubevirt.io/api/core/v1"
)

// Variable is the launcher's environment variable with the hardware as JSON; none means Default.
const Variable = "HARDWARE"

// balloonStats is KubeVirt's default for memBalloonStatsPeriod, in seconds.
const balloonStats = 10

// Hardware is the same for all guests of a cluster.
type Hardware struct {
	// BalloonStats is how often QEMU asks the guest's balloon driver how its memory is used, in seconds; 0: never.
	BalloonStats uint32 `json:"balloonStats"`
	// SMBIOS is what the guest's firmware says of its maker.
	SMBIOS kubevirt.SMBiosConfiguration `json:"smbios"`
}

// Default is KubeVirt's.
func Default() Hardware {
	return Hardware{BalloonStats: balloonStats, SMBIOS: kubevirt.SMBiosConfiguration{
		Manufacturer: "KubeVirt", Product: "None", Family: "KubeVirt"}}
}

// From is what a configuration says. Of SMBIOS what it leaves out keeps KubeVirt's default, as there.
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
	return h
}

// Encode is the value of Variable; "" for the default.
func (h Hardware) Encode() (string, error) {
	if h == Default() {
		return "", nil
	}
	value, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encoding the hardware: %w", err)
	}
	// Kubernetes expands what begins with a dollar sign in a variable's value.
	return strings.ReplaceAll(string(value), "$", `\u0024`), nil
}

// Decode reads the value of Variable.
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
