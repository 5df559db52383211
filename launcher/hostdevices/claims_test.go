package hostdevices

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/devicemetadata"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestClaimed(t *testing.T) {
	const (
		pciAt   = `"resource.kubernetes.io/pciBusID":{"string":"0000:65:00.0"}`
		sliceAt = `"mdevUUID":{"string":"aa618089-8b16-4d01-a136-25a0f3c73123"}`
		newer   = `{"apiVersion":"metadata.resource.k8s.io/v9","kind":"DeviceMetadata"}`
		claim   = `"resourceClaims":[{"name":"c","resourceClaimTemplateName":"gpus"}]`
		gpu     = `{"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"r"}]}},` + claim + `}`
		port    = `{"domain":{"devices":{}},"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"r"}}],` + claim + `}`
		twice   = `{"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"r"},{"name":"h","claimName":"d","requestName":"r"}]}},` +
			`"resourceClaims":[{"name":"c","resourceClaimName":"gpus"},{"name":"d","resourceClaimName":"gpus"}]}`
		unclaims = `{"domain":{"devices":{"hostDevices":[{"name":"g","claimName":"c","requestName":"r"}]}}}`
	)
	device := func(attributes string) string {
		return `{"driver":"gpu.example.com","pool":"p","name":"gpu-0","attributes":{` + attributes + `}}`
	}
	told := func(request string, devices ...string) string {
		return `{"apiVersion":"metadata.resource.k8s.io/v1alpha1","kind":"DeviceMetadata","metadata":{"name":"x","generation":1},` +
			`"requests":[{"name":"` + request + `","devices":[` + strings.Join(devices, ",") + `]}]}`
	}
	for name, c := range map[string]struct {
		spec, told string
		want       domain.HostAddress
		err        string
	}{
		"on the PCI bus":  {spec: gpu, told: told("r", device(pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"of a network":    {spec: port, told: told("r", device(pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"an alternative":  {spec: gpu, told: told("r/small", device(pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"a newer version": {spec: gpu, told: newer + told("r", device(pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"mediated, with its parent's": {spec: gpu, told: told("r", device(pciAt+","+sliceAt)),
			want: domain.HostAddress{Mediated: "aa618089-8b16-4d01-a136-25a0f3c73123"}},
		"no address":      {spec: gpu, told: told("r", device("")), err: "spec.domain.devices.gpus[0]: driver gpu.example.com tells neither"},
		"two":             {spec: gpu, told: told("r", device(pciAt), device(pciAt)), err: "request r of claim c has 2 devices, and can have one"},
		"another request": {spec: gpu, told: told("other", device(pciAt)), err: "has 0 devices"},
		"newer ones only": {spec: gpu, told: newer, err: "no compatible metadata version"},
		"nonsense":        {spec: gpu, told: `{"requests":7}`, err: "the driver of claim c tells nothing of its devices"},
		"no file":         {spec: gpu, err: "tells nothing of its devices (KEP 5304): no file"},
		"no text":         {spec: gpu, told: told("r", device(`"mdevUUID":{"string":""},`+pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"the same twice":  {spec: twice, told: told("r", device(pciAt)), err: "spec.domain.devices.gpus[1]: its device gpu-0 is that of spec.domain.devices.gpus[0] as well"},
		"no claim":        {spec: unclaims, err: `spec.domain.devices.hostDevices[0]: there is no claim "c" in spec.resourceClaims`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1.VirtualMachineInstanceSpec{}
			require.NoError(t, json.Unmarshal([]byte(c.spec), spec))
			got, err := Claimed(spec, func(
				claim v1.VirtualMachineInstanceResourceClaim, request string,
			) (*metadata.DeviceMetadata, error) {
				require.Contains(t, []string{"c r", "d r"}, claim.Name+" "+request)
				if c.told == "" {
					return nil, errors.New("no file")
				}
				out := &metadata.DeviceMetadata{}
				return out, devicemetadata.DecodeMetadataFromStream(json.NewDecoder(strings.NewReader(c.told)), out)
			})
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[v1.ClaimRequest]domain.HostAddress{{ClaimName: "c", RequestName: "r"}: c.want}, got)
		})
	}
}

// TestARequestIsNoPath: its name becomes a part of one.
func TestARequestIsNoPath(t *testing.T) {
	for _, name := range []string{"../../secrets", "*", "", "a/b"} {
		spec := &v1.VirtualMachineInstanceSpec{}
		spec.Domain.Devices.GPUs = []v1.GPU{{ClaimRequest: &v1.ClaimRequest{ClaimName: "c", RequestName: name}}}
		spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: "c"}}
		_, err := Claimed(spec, func(v1.VirtualMachineInstanceResourceClaim, string) (*metadata.DeviceMetadata, error) {
			require.Fail(t, "it was looked for")
			return nil, errors.New("looked for")
		})
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "spec.domain.devices.gpus[0].requestName", invalid.Field)
	}
}

// TestFilesAreLookedForWhereDriversMountThem: by the claim's own name, or by the pod's for one made of a template.
func TestFilesAreLookedForWhereDriversMountThem(t *testing.T) {
	name := "mine"
	_, err := Files(v1.VirtualMachineInstanceResourceClaim{Name: "c", ResourceClaimName: &name}, "r")
	require.ErrorContains(t, err, "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/mine/r")
	_, err = Files(v1.VirtualMachineInstanceResourceClaim{Name: "c", ResourceClaimTemplateName: &name}, "r")
	require.ErrorContains(t, err, "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/r")
}
