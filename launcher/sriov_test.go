package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestAssignsHostDevices(t *testing.T) {
	const networks = `,"networks":[{"name":"default","pod":{}},{"name":"a","multus":{"networkName":"fast"}},` +
		`{"name":"b","multus":{"networkName":"fast"}},{"name":"c","multus":{"networkName":"other"}},` +
		`{"name":"d","resourceClaim":{"claimName":"fast","requestName":"port"}},` +
		`{"name":"e","resourceClaim":{"claimName":"fast","requestName":"slice"}}]}`
	const a, b, c = `{"name":"a","sriov":{}}`, `{"name":"b","sriov":{}}`, `{"name":"c","sriov":{}}`
	vf := map[string]string{"KUBEVIRT_RESOURCE_NAME_a": "vendor.example/v_f",
		"KUBEVIRT_RESOURCE_NAME_b": "vendor.example/v_f",
		"KUBEVIRT_RESOURCE_NAME_c": "vendor.example/v_f", "PCIDEVICE_VENDOR_EXAMPLE_V_F": "0000:81:01.0,0000:81:01.2"}
	claimed := map[v1.ClaimRequest]domain.HostAddress{
		{ClaimName: "fast", RequestName: "port"}:  {PCI: "0000:82:01.0"},
		{ClaimName: "fast", RequestName: "slice"}: {Mediated: "u1"},
	}
	for name, of := range map[string]struct {
		interfaces string
		env        map[string]string
		want       map[string]domain.Interface
		problem    string
	}{
		"none": {interfaces: `{"name":"default","masquerade":{}}`, want: map[string]domain.Interface{}},
		"two of one network": {interfaces: a + "," + b, env: vf,
			want: map[string]domain.Interface{"a": {PCI: "0000:81:01.0"}, "b": {PCI: "0000:81:01.2"}}},
		"distinguishable": {interfaces: `{"name":"a","sriov":{},"macAddress":"02:00:00:00:00:0a"},` + b, env: vf,
			problem: "interfaces[0].sriov: interfaces a and b use one resource"},
		"beside a bridge": {interfaces: a + `,{"name":"b","bridge":{}}`, env: vf,
			problem: "interfaces[0].sriov: interfaces a and b use one resource"},
		"whose is it": {interfaces: a + "," + c, env: vf, problem: "interfaces a and c use one resource"},
		"too few": {interfaces: a + "," + b, env: map[string]string{"KUBEVIRT_RESOURCE_NAME_a": "r", "KUBEVIRT_RESOURCE_NAME_b": "r",
			"PCIDEVICE_R": "0000:81:01.0"}, problem: "interfaces[1].sriov: the pod has too few devices of resource r"},
		"no resource": {interfaces: a, problem: "the NetworkAttachmentDefinition fast names no resource"},
		"of the pod":  {interfaces: `{"name":"default","sriov":{}}`, problem: `network "default" is neither a Multus network nor`},
		"claimed": {interfaces: `{"name":"d","sriov":{}},` + a, env: vf,
			want: map[string]domain.Interface{"d": {PCI: "0000:82:01.0"}, "a": {PCI: "0000:81:01.0"}}},
		"claimed, and mediated": {interfaces: `{"name":"e","sriov":{}}`, problem: "ResourceClaim fast is not a PCI device"},
	} {
		got := map[string]domain.Interface{}
		err := hostNetworks(connected(t, `{"domain":{"devices":{"interfaces":[`+of.interfaces+`]}}`+networks),
			func(name string) string { return of.env[name] }, claimed, got)
		if of.problem != "" {
			require.ErrorContains(t, err, of.problem, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, of.want, got, name)
	}
}
