package multus_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
)

func TestAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want map[string]string
	}{
		"the pod's network only": {
			spec: `{"networks":[{"name":"default","pod":{}}]}`, want: map[string]string{}},
		"in this namespace, with a MAC, and in another": {
			spec: `{"domain":{"devices":{"interfaces":[{"name":"second","macAddress":"02:00:00:00:be:02"},{"name":"ptp"}]}},
				"networks":[{"name":"default","pod":{}},{"name":"second","multus":{"networkName":"blue"}},
				{"name":"ptp","multus":{"networkName":"other/ptp-conf"}}]}`,
			want: map[string]string{multus.AnnotationNetworks: `[{"name":"blue","namespace":"here",` +
				`"mac":"02:00:00:00:be:02","interface":"pod16367aacb67"},` +
				`{"name":"ptp-conf","namespace":"other","interface":"pode31d7ce2712"}]`}},
		"in the place of the pod's": {
			spec: `{"networks":[{"name":"default","multus":{"networkName":"other/blue","default":true}}]}`,
			want: map[string]string{multus.AnnotationDefault: "other/blue"}},
		"of binding plugins": {
			spec: `{"domain":{"devices":{"interfaces":[{"name":"default","binding":{"name":"l2"}},
				{"name":"second","binding":{"name":"taps"}},{"name":"third","binding":{"name":"none"}},
				{"name":"gone","binding":{"name":"l2"},"state":"absent"}]}},
				"networks":[{"name":"default","pod":{}},{"name":"second","multus":{"networkName":"blue"}},
				{"name":"third","multus":{"networkName":"blue"}},{"name":"gone","multus":{"networkName":"blue"}}]}`,
			want: map[string]string{multus.AnnotationNetworks: `[` +
				`{"name":"l2-conf","namespace":"here","cni-args":{"logicNetworkName":"default"}},` +
				`{"name":"blue","namespace":"here","interface":"pod16367aacb67"},` +
				`{"name":"taps","namespace":"infra","cni-args":{"logicNetworkName":"second"}},` +
				`{"name":"blue","namespace":"here","interface":"pod` + multus.Suffix("third") + `"}]`}},
		"unplugged": {
			spec: `{"domain":{"devices":{"interfaces":[{"name":"second","bridge":{},"state":"absent"}]}},
				"networks":[{"name":"second","multus":{"networkName":"blue"}}]}`,
			want: map[string]string{}},
	} {
		vmi := &kubevirt.VirtualMachineInstance{}
		vmi.Namespace = "here"
		require.NoError(t, json.Unmarshal([]byte(c.spec), &vmi.Spec), name)
		got, err := multus.Annotations(vmi, map[string]string{"l2": "l2-conf", "taps": "infra/taps"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}
