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
		port    = `{"domain":{"devices":{}},
			"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"r"}}],` + claim + `}`
		twice = `{"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"r"},
			{"name":"h","claimName":"d","requestName":"r"}]}},` +
			`"resourceClaims":[{"name":"c","resourceClaimName":"gpus"},{"name":"d","resourceClaimName":"gpus"}]}`
		unclaims = `{"domain":{"devices":{"hostDevices":[{"name":"g","claimName":"c","requestName":"r"}]}}}`
	)
	device := func(attributes string) string {
		return `{"driver":"gpu.example.com","pool":"p","name":"gpu-0","attributes":{` + attributes + `}}`
	}
	files := func(request string, devices ...string) string {
		return `{"apiVersion":"metadata.resource.k8s.io/v1alpha1","kind":"DeviceMetadata",` +
			`"metadata":{"name":"x","generation":1},` +
			`"requests":[{"name":"` + request + `","devices":[` + strings.Join(devices, ",") + `]}]}`
	}
	for name, c := range map[string]struct {
		spec, files string
		want        domain.HostAddress
		err         string
	}{
		"on the PCI bus": {spec: gpu, files: files("r", device(pciAt)), want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"of a network": {spec: port, files: files("r", device(pciAt)),
			want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"an alternative": {spec: gpu, files: files("r/small", device(pciAt)),
			want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"a newer version": {spec: gpu, files: newer + files("r", device(pciAt)),
			want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"mediated, with its parent's": {spec: gpu, files: files("r", device(pciAt+","+sliceAt)),
			want: domain.HostAddress{Mediated: "aa618089-8b16-4d01-a136-25a0f3c73123"}},
		"no address": {spec: gpu, files: files("r", device("")),
			err: "spec.domain.devices.gpus[0]: driver gpu.example.com reports neither"},
		"two": {spec: gpu, files: files("r", device(pciAt), device(pciAt)),
			err: "request r of ResourceClaim c must have one device, but has 2"},
		"another request": {spec: gpu, files: files("other", device(pciAt)), err: "but has 0"},
		"newer ones only": {spec: gpu, files: newer, err: "no compatible metadata version"},
		"nonsense": {spec: gpu, files: `{"requests":7}`,
			err: "the driver of ResourceClaim c reports no devices"},
		"no file": {spec: gpu, err: "reports no devices (KEP 5304): no file"},
		"an empty string": {spec: gpu, files: files("r", device(`"mdevUUID":{"string":""},`+pciAt)),
			want: domain.HostAddress{PCI: "0000:65:00.0"}},
		"the same twice": {spec: twice, files: files("r", device(pciAt)),
			err: "spec.domain.devices.gpus[1]: its device gpu-0 is also that of spec.domain.devices.gpus[0]"},
		"no claim": {spec: unclaims,
			err: `spec.domain.devices.hostDevices[0]: spec.resourceClaims has no entry "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1.VirtualMachineInstanceSpec{}
			require.NoError(t, json.Unmarshal([]byte(c.spec), spec))
			got, err := Claimed(spec, func(
				claim v1.VirtualMachineInstanceResourceClaim, request string,
			) (*metadata.DeviceMetadata, error) {
				require.Contains(t, []string{"c r", "d r"}, claim.Name+" "+request)
				if c.files == "" {
					return nil, errors.New("no file")
				}
				out := &metadata.DeviceMetadata{}
				return out, devicemetadata.DecodeMetadataFromStream(json.NewDecoder(strings.NewReader(c.files)), out)
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

// TestRefusesRequestNameThatIsPath: the name becomes a part of one.
func TestRefusesRequestNameThatIsPath(t *testing.T) {
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

// TestFindsFilesOfDrivers: by the ResourceClaim's own name, or by the pod's name for one made of a template.
func TestFindsFilesOfDrivers(t *testing.T) {
	name := "mine"
	_, err := Files(v1.VirtualMachineInstanceResourceClaim{Name: "c", ResourceClaimName: &name}, "r")
	require.ErrorContains(t, err, "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/mine/r")
	_, err = Files(v1.VirtualMachineInstanceResourceClaim{Name: "c", ResourceClaimTemplateName: &name}, "r")
	require.ErrorContains(t, err, "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/r")
}
