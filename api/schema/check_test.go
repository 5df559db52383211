package schema

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestCheck(t *testing.T) {
	spec := Compile(kubevirtv1.VirtualMachineSpec{})
	const plain = `"template": {"spec": {"domain": {"devices": {}}}}`
	for name, c := range map[string]struct {
		value string
		found []string
	}{
		"plain":           {`{` + plain + `}`, nil},
		"nothing":         {`null`, []string{`spec in body must be of type object: "null"`}},
		"a list":          {`[]`, []string{`spec in body must be of type object: "array"`}},
		"unknown field":   {`{"x": 1, ` + plain + `}`, []string{"spec.x in body is a forbidden property"}},
		"required field":  {`{}`, []string{"spec.template in body is required"}},
		"null":            {`{"running": null, ` + plain + `}`, []string{`spec.running in body must be of type boolean: "null"`}},
		"null that may":   {`{"template": {"metadata": {"creationTimestamp": null}, "spec": {"domain": {"devices": {}}}}}`, nil},
		"a time":          {`{"template": {"metadata": {"creationTimestamp": "today"}, "spec": {"domain": {"devices": {}}}}}`, []string{`spec.template.metadata.creationTimestamp in body must be of type date-time: "today"`}},
		"embedded struct": {`{"template": {"spec": {"domain": {"devices": {"disks": [{"name": "a", "disk": {"bus": 1}}]}}}}}`, []string{`spec.template.spec.domain.devices.disks.0.disk.bus in body must be of type string: "number"`}},
		"a quantity":      {`{"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": 1e9}}}}}`, nil},
		"no quantity":     {`{"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": true}}}}}`, []string{`spec.template.spec.domain.memory.guest in body must be of type string,integer,number: "boolean"`}},
		"a map":           {`{"template": {"spec": {"nodeSelector": {"a": 1}, "domain": {"devices": {}}}}}`, []string{`spec.template.spec.nodeSelector.a in body must be of type string: "number"`}},
		"one of few":      {`{"template": {"spec": {"tolerations": [{"effect": "Never"}], "domain": {"devices": {}}}}}`, []string{"spec.template.spec.tolerations.0.effect in body should be one of [NoExecute NoSchedule PreferNoSchedule]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var value any
			require.NoError(t, json.Unmarshal([]byte(c.value), &value))
			require.Equal(t, c.found, spec.Check(value, "spec", true))
		})
	}
	require.Empty(t, Compile(kubevirtv1.VirtualMachineStatus{}).Check(map[string]any{"later": true}, "status", false), "what is not strict lets unknown fields pass")
}

func TestFindingsAreBounded(t *testing.T) {
	list := make([]any, 10*maxFindings)
	require.Len(t, Compile([]kubevirtv1.Disk{}).Check(list, "disks", false), maxFindings)
	require.Equal(t, []string{"disks in body should have at most 1000 items"}, Compile([]kubevirtv1.Disk{}).Check(list, "disks", true))
}
