package support

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// HostDevices returns a cause for each host device that the configuration permits without an external device plugin:
// virtflow has none for them.
func HostDevices(permitted *kubevirtv1.PermittedHostDevices) []metav1.StatusCause {
	if permitted == nil {
		return nil
	}
	var causes []metav1.StatusCause
	check := func(list string, i int, external bool) {
		if external {
			return
		}
		field := fmt.Sprintf("spec.configuration.permittedHostDevices.%s[%d].externalResourceProvider", list, i)
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueNotSupported, Field: field,
			Message: field + ": false is not supported yet (supported: true): install a device plugin that offers the resource",
		})
	}
	for i := range permitted.PciHostDevices {
		check("pciHostDevices", i, permitted.PciHostDevices[i].ExternalResourceProvider)
	}
	for i := range permitted.MediatedDevices {
		check("mediatedDevices", i, permitted.MediatedDevices[i].ExternalResourceProvider)
	}
	for i := range permitted.USB {
		check("usb", i, permitted.USB[i].ExternalResourceProvider)
	}
	return causes
}
