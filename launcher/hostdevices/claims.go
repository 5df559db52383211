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

// Attributes in which drivers report the address of a device, as KubeVirt reads them; Kubernetes standardises only the
// first.
const (
	attributePCI      resource.QualifiedName = "resource.kubernetes.io/pciBusID"
	attributeMediated resource.QualifiedName = "mdevUUID"
)

// Metadata returns what drivers report for a request of a ResourceClaim.
type Metadata func(claim v1.VirtualMachineInstanceResourceClaim, request string) (*metadata.DeviceMetadata, error)

// Files is the Metadata that reads the files which the drivers of ResourceClaims have mounted into this container.
func Files(claim v1.VirtualMachineInstanceResourceClaim, request string) (*metadata.DeviceMetadata, error) {
	if claim.ResourceClaimName != nil {
		return devicemetadata.ReadResourceClaimMetadata(*claim.ResourceClaimName, request)
	}
	return devicemetadata.ReadResourceClaimTemplateMetadata(claim.Name, request)
}

// Claimed returns the addresses of the devices that a guest has by ResourceClaims. For a mediated device the driver may
// also report the address of its parent, which is not the guest's.
func Claimed(spec *v1.VirtualMachineInstanceSpec, read Metadata) (map[v1.ClaimRequest]domain.HostAddress, error) {
	out := map[v1.ClaimRequest]domain.HostAddress{}
	taken := map[domain.HostAddress]string{}
	for field, r := range hardware.ClaimRequests(spec) {
		field = "spec." + field
		// It becomes a part of a path. Admission checks it, too.
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
			return nil, fmt.Errorf("%s: driver %s reports neither %s nor %s of its device %s", field, device.Driver,
				attributePCI, attributeMediated, device.Name)
		}
		if other, twice := taken[at]; twice {
			return nil, fmt.Errorf("%s: its device %s is also that of %s", field, device.Name, other)
		}
		out[r], taken[at] = at, field
	}
	return out, nil
}

// text returns an attribute's value; "" if it is missing or not a string.
func text(device *metadata.Device, attribute resource.QualifiedName) string {
	if value := device.Attributes[attribute].StringValue; value != nil {
		return *value
	}
	return ""
}

// device returns the device of a request.
func device(
	spec *v1.VirtualMachineInstanceSpec, r v1.ClaimRequest, read Metadata,
) (*metadata.Device, error) {
	for _, claim := range spec.ResourceClaims {
		if claim.Name != r.ClaimName {
			continue
		}
		reported, err := read(claim, r.RequestName)
		if err != nil {
			return nil, fmt.Errorf("the driver of ResourceClaim %s reports no devices (KEP 5304): %w", r.ClaimName, err)
		}
		var devices []metadata.Device
		for i := range reported.Requests {
			// For a request with alternatives, the name of the chosen one follows.
			if name, _, _ := strings.Cut(reported.Requests[i].Name, "/"); name == r.RequestName {
				devices = append(devices, reported.Requests[i].Devices...)
			}
		}
		if len(devices) != 1 {
			return nil, fmt.Errorf("request %s of ResourceClaim %s must have one device, but has %d", r.RequestName,
				r.ClaimName, len(devices))
		}
		return &devices[0], nil
	}
	return nil, fmt.Errorf("spec.resourceClaims has no entry %q", r.ClaimName)
}
