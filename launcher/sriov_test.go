package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestDevicesOfTheHost(t *testing.T) {
	const networks = `,"networks":[{"name":"default","pod":{}},{"name":"a","multus":{"networkName":"fast"}},` +
		`{"name":"b","multus":{"networkName":"fast"}},{"name":"c","multus":{"networkName":"other"}}]}`
	const a, b, c = `{"name":"a","sriov":{}}`, `{"name":"b","sriov":{}}`, `{"name":"c","sriov":{}}`
	vf := map[string]string{"KUBEVIRT_RESOURCE_NAME_a": "vendor.example/v_f",
		"KUBEVIRT_RESOURCE_NAME_b": "vendor.example/v_f",
		"KUBEVIRT_RESOURCE_NAME_c": "vendor.example/v_f", "PCIDEVICE_VENDOR_EXAMPLE_V_F": "0000:81:01.0,0000:81:01.2"}
	for name, of := range map[string]struct {
		interfaces string
		env        map[string]string
		want       map[string]domain.Interface
		problem    string
	}{
		"none": {interfaces: `{"name":"default","masquerade":{}}`, want: map[string]domain.Interface{}},
		"two of one network": {interfaces: a + "," + b, env: vf,
			want: map[string]domain.Interface{"a": {PCI: "0000:81:01.0"}, "b": {PCI: "0000:81:01.2"}}},
		"told apart": {interfaces: `{"name":"a","sriov":{},"macAddress":"02:00:00:00:00:0a"},` + b, env: vf,
			problem: "interfaces[0].sriov: interfaces a and b are of one resource"},
		"beside a bridge": {interfaces: a + `,{"name":"b","bridge":{}}`, env: vf,
			problem: "interfaces[0].sriov: interfaces a and b are of one resource"},
		"whose is it": {interfaces: a + "," + c, env: vf, problem: "interfaces a and c are of one resource"},
		"too few": {interfaces: a + "," + b, env: map[string]string{"KUBEVIRT_RESOURCE_NAME_a": "r", "KUBEVIRT_RESOURCE_NAME_b": "r",
			"PCIDEVICE_R": "0000:81:01.0"}, problem: "interfaces[1].sriov: the pod has no device of r left"},
		"no resource": {interfaces: a, problem: "the NetworkAttachmentDefinition fast names no resource"},
		"of the pod":  {interfaces: `{"name":"default","sriov":{}}`, problem: `network "default" is not one of Multus'`},
	} {
		got := map[string]domain.Interface{}
		err := hostNetworks(connected(t, `{"domain":{"devices":{"interfaces":[`+of.interfaces+`]}}`+networks),
			func(name string) string { return of.env[name] }, got)
		if of.problem != "" {
			require.ErrorContains(t, err, of.problem, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, of.want, got, name)
	}
}
