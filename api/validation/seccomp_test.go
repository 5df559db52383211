package validation

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestSeccompConfiguration(t *testing.T) {
	t.Parallel()
	const at = "spec.configuration.seccompConfiguration.virtualMachineInstanceProfile.customProfile"
	const file, standard = at + ".localhostProfile", at + ".runtimeDefaultProfile"
	custom := func(c *kubevirtv1.CustomProfile) *kubevirtv1.SeccompConfiguration {
		return &kubevirtv1.SeccompConfiguration{
			VirtualMachineInstanceProfile: &kubevirtv1.VirtualMachineInstanceProfile{CustomProfile: c}}
	}
	path := func(p string) *kubevirtv1.SeccompConfiguration {
		return custom(&kubevirtv1.CustomProfile{LocalhostProfile: &p})
	}
	for name, c := range map[string]struct {
		of     *kubevirtv1.SeccompConfiguration
		fields []string
	}{
		"nothing":              {},
		"no profile":           {of: &kubevirtv1.SeccompConfiguration{}},
		"a profile of none":    {of: custom(nil), fields: []string{at}},
		"neither":              {of: custom(&kubevirtv1.CustomProfile{})},
		"the runtime's":        {of: custom(&kubevirtv1.CustomProfile{RuntimeDefaultProfile: true})},
		"a file":               {of: path("kubevirt/kubevirt.json")},
		"dots within a name":   {of: path("a..b/..c.json")},
		"no path":              {of: path(""), fields: []string{file}},
		"an absolute path":     {of: path("/etc/passwd"), fields: []string{file}},
		"a path that leads up": {of: path("a/../../b.json"), fields: []string{file}},
		"both": {of: custom(&kubevirtv1.CustomProfile{LocalhostProfile: new("a.json"), RuntimeDefaultProfile: true}),
			fields: []string{file, standard}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fields []string
			for _, cause := range MachineConfiguration(&kubevirtv1.KubeVirtConfiguration{SeccompConfiguration: c.of}) {
				require.NotEmpty(t, cause.Message)
				fields = append(fields, cause.Field)
			}
			require.Equal(t, c.fields, fields)
		})
	}
}
