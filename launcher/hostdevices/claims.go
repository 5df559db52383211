package hostdevices

import (
	"fmt"
	"strings"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/domain"
)

// Attributes by which drivers tell where a device is, as KubeVirt reads them; Kubernetes has a name for the first only.
const (
	attributePCI      resource.QualifiedName = "resource.kubernetes.io/pciBusID"
	attributeMediated resource.QualifiedName = "mdevUUID"
)

// Metadata reads what drivers tell of a claim's request.
type Metadata func(claim v1.VirtualMachineInstanceResourceClaim, request string) (*metadata.DeviceMetadata, error)

// Files is the Metadata of the files that the claims' drivers have mounted into this container.
func Files(claim v1.VirtualMachineInstanceResourceClaim, request string) (*metadata.DeviceMetadata, error) {
	if claim.ResourceClaimName != nil {
		return devicemetadata.ReadResourceClaimMetadata(*claim.ResourceClaimName, request)
	}
	return devicemetadata.ReadResourceClaimTemplateMetadata(claim.Name, request)
}

// Claimed reads the addresses of the devices that a guest has by claims. A mediated device may tell the address of its
// parent as well, which is not the guest's.
func Claimed(spec *v1.VirtualMachineInstanceSpec, read Metadata) (map[v1.ClaimRequest]domain.HostAddress, error) {
	out := map[v1.ClaimRequest]domain.HostAddress{}
	taken := map[domain.HostAddress]string{}
	for field, r := range hardware.ClaimRequests(spec) {
		field = "spec." + field
		// It becomes a part of a path. Admission says so, too.
		if problems := validation.IsDNS1123Label(r.RequestName); len(problems) > 0 {
			return nil, &domain.InvalidError{Field: field + ".requestName", Problem: problems[0]}
		}
		device, err := device(spec, r, read)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		at := domain.HostAddress{Mediated: text(device, attributeMediated)}
		if at.Mediated == "" {
			at.PCI = text(device, attributePCI)
		}
		if at == (domain.HostAddress{}) {
			return nil, fmt.Errorf("%s: driver %s tells neither %s nor %s of its device %s", field, device.Driver,
				attributePCI, attributeMediated, device.Name)
		}
		if other, twice := taken[at]; twice {
			return nil, fmt.Errorf("%s: its device %s is that of %s as well", field, device.Name, other)
		}
		out[r], taken[at] = at, field
	}
	return out, nil
}

// text is an attribute's value; "": there is none, or it is no text.
func text(device *metadata.Device, attribute resource.QualifiedName) string {
	if value := device.Attributes[attribute].StringValue; value != nil {
		return *value
	}
	return ""
}

// device is the one of a claim's request.
func device(
	spec *v1.VirtualMachineInstanceSpec, r v1.ClaimRequest, read Metadata,
) (*metadata.Device, error) {
	for _, claim := range spec.ResourceClaims {
		if claim.Name != r.ClaimName {
			continue
		}
		told, err := read(claim, r.RequestName)
		if err != nil {
			return nil, fmt.Errorf("the driver of claim %s tells nothing of its devices (KEP 5304): %w", r.ClaimName, err)
		}
		var devices []metadata.Device
		for i := range told.Requests {
			// Of a request with alternatives the chosen one follows its name.
			if name, _, _ := strings.Cut(told.Requests[i].Name, "/"); name == r.RequestName {
				devices = append(devices, told.Requests[i].Devices...)
			}
		}
		if len(devices) != 1 {
			return nil, fmt.Errorf("request %s of claim %s has %d devices, and can have one", r.RequestName, r.ClaimName,
				len(devices))
		}
		return &devices[0], nil
	}
	return nil, fmt.Errorf("there is no claim %q in spec.resourceClaims", r.ClaimName)
}
