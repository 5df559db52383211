package validation

import (
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// device is a GPU or another device of the host. It is named, or claimed (by a ResourceClaim): then the scheduler finds
// one.
type device struct {
	index int
	name  string
	claim *kubevirtv1.ClaimRequest
}

// isClaimed reports whether the device is requested by a ResourceClaim, and not by its name.
func (d device) isClaimed() bool { return d.name == "" && d.claim != nil }

// deviceList are devices of one kind.
type deviceList struct {
	field, kind string
	gate        string
	oneWay      bool // all are claimed, or none is
	devices     []device
}

func (s subject) deviceLists() []deviceList {
	gpus := deviceList{field: "gpus", kind: "GPU", gate: defaults.GateGPUsWithDRA, oneWay: true}
	for i, g := range s.spec.Domain.Devices.GPUs {
		gpus.devices = append(gpus.devices, device{i, g.DeviceName, g.ClaimRequest})
	}
	others := deviceList{field: "hostDevices", kind: "HostDevice", gate: defaults.GateHostDevicesWithDRA}
	for i, h := range s.spec.Domain.Devices.HostDevices {
		others.devices = append(others.devices, device{i, h.DeviceName, h.ClaimRequest})
	}
	return []deviceList{gpus, others}
}

// claimedDevices checks ResourceClaims, the devices that use them, and that no two devices are the same.
func claimedDevices(s subject) []metav1.StatusCause {
	causes := resourceClaims(s)
	type owner struct {
		kind  string
		index int
	}
	owners, used := map[string]owner{}, map[string]bool{}
	var shared []metav1.StatusCause
	claim := func(kind string, at *field.Path, first map[string]int) {
		for _, key := range slices.Sorted(maps.Keys(first)) {
			if o, ok := owners[key]; ok {
				shared = append(shared, duplicate(at.Index(first[key]),
					"duplicate claimName/requestName pair %q between %s[%d] and %s[%d]",
					key, o.kind, o.index, kind, first[key])...)
				continue
			}
			owners[key] = owner{kind, first[key]}
		}
	}
	for _, l := range s.deviceLists() {
		found, first := s.devices(l, used)
		causes = append(causes, found...)
		claim(l.kind+"s", s.domain("devices", l.field), first)
	}
	if s.cluster.Enabled(defaults.GateNetworkDevicesWithDRA) {
		claim("Networks", s.path.Child("networks"), s.networkClaims())
	}
	causes = append(causes, shared...)
	for name := range used {
		if !s.hasClaim(name) {
			return append(causes, invalid(s.path.Child("resourceClaims"),
				"vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and "+
					"vmi.spec.domain.devices.hostDevices")...)
		}
	}
	return causes
}

func (s subject) networkClaims() map[string]int {
	first := map[string]int{}
	for i, n := range s.spec.Networks {
		if n.ResourceClaim == nil || n.ResourceClaim.ClaimName == "" || n.ResourceClaim.RequestName == "" {
			continue
		}
		if key := n.ResourceClaim.ClaimName + "/" + n.ResourceClaim.RequestName; !hasKey(first, key) {
			first[key] = i
		}
	}
	return first
}

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

// devices checks one list. It adds the names of the ResourceClaims that are used, and returns the first device of each
// claim and request.
func (s subject) devices(l deviceList, used map[string]bool) ([]metav1.StatusCause, map[string]int) {
	p := s.domain("devices", l.field)
	claimed := slices.ContainsFunc(l.devices, device.isClaimed)
	named := slices.ContainsFunc(l.devices, func(d device) bool { return !d.isClaimed() })
	if l.oneWay && claimed && named {
		return invalid(p, "vmi.spec.domain.devices.%s contains both DRA and non-DRA %ss; each %s must be either DRA "+
			"or non-DRA", l.field, l.kind, l.kind), nil
	}
	causes := namedDevices(p, l)
	if claimed && !s.cluster.Enabled(l.gate) {
		return append(causes, invalid(p,
			"vmi.spec.domain.devices.%s contains DRA enabled %ss but feature gate is not enabled", l.field, l.kind)...), nil
	}
	first := map[string]int{}
	for _, d := range l.devices {
		if !d.isClaimed() {
			continue
		}
		at := p.Index(d.index)
		if d.claim.ClaimName == "" {
			causes = append(causes, required(at.Child("claimName"), "claimName is required for DRA %s", l.kind)...)
		}
		if d.claim.RequestName == "" {
			causes = append(causes, required(at.Child("requestName"), "requestName is required for DRA %s", l.kind)...)
		}
		if d.claim.ClaimName == "" || d.claim.RequestName == "" {
			continue
		}
		used[d.claim.ClaimName] = true
		key := d.claim.ClaimName + "/" + d.claim.RequestName
		if hasKey(first, key) {
			causes = append(causes, duplicate(at, "duplicate claimName/requestName pair %q", key)...)
			continue
		}
		first[key] = d.index
	}
	return causes, first
}

func namedDevices(p *field.Path, l deviceList) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, d := range l.devices {
		switch {
		case d.isClaimed():
		case d.name == "":
			causes = append(causes, required(p,
				"vmi.spec.domain.devices.%s contains %ss without deviceName or claimRequest; "+
					"each %s must specify either a deviceName or a claimRequest", l.field, l.kind, l.kind)...)
		case d.claim != nil:
			causes = append(causes, invalid(p,
				"vmi.spec.domain.devices.%s contains %ss with both deviceName and claimRequest", l.field, l.kind)...)
		}
	}
	return causes
}

func resourceClaims(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	known := map[string]bool{}
	for i, c := range s.spec.ResourceClaims {
		p := s.path.Child("resourceClaims").Index(i)
		switch errs := validation.IsDNS1123Label(c.Name); {
		case c.Name == "":
			causes = append(causes, required(p.Child("name"), "%s is a required field", p.Child("name"))...)
		case known[c.Name]:
			causes = append(causes, duplicate(p.Child("name"), "duplicate resourceClaims name %q", c.Name)...)
		case len(errs) > 0:
			causes = append(causes, invalid(p.Child("name"),
				"%s does not conform to the kubernetes DNS_LABEL rules: %s", p.Child("name"), strings.Join(errs,
					", "))...)
		}
		known[c.Name] = true
		switch {
		case c.ResourceClaimName != nil && c.ResourceClaimTemplateName != nil:
			causes = append(causes, invalid(p,
				"at most one of resourceClaimName or resourceClaimTemplateName may be specified")...)
		case c.ResourceClaimName == nil && c.ResourceClaimTemplateName == nil:
			causes = append(causes, invalid(p, "must specify one of: resourceClaimName, resourceClaimTemplateName")...)
		}
		causes = append(causes, objectName(p.Child("resourceClaimName"), c.ResourceClaimName)...)
		causes = append(causes, objectName(p.Child("resourceClaimTemplateName"), c.ResourceClaimTemplateName)...)
	}
	return causes
}

func objectName(p *field.Path, name *string) []metav1.StatusCause {
	if name == nil {
		return nil
	}
	var causes []metav1.StatusCause
	for _, e := range apivalidation.NameIsDNSSubdomain(*name, false) {
		causes = append(causes, invalid(p, "%s", e)...)
	}
	return causes
}
