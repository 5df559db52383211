package schema

import (
	"encoding/json"
	"strconv"
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
		"plain":          {`{` + plain + `}`, nil},
		"nothing":        {`null`, []string{`spec in body must be of type object: "null"`}},
		"a list":         {`[]`, []string{`spec in body must be of type object: "array"`}},
		"unknown field":  {`{"x": 1, ` + plain + `}`, []string{"spec.x in body is a forbidden property"}},
		"required field": {`{}`, []string{"spec.template in body is required"}},
		"null": {`{"running": null, ` + plain + `}`,
			[]string{`spec.running in body must be of type boolean: "null"`}},
		"null where allowed": {`{"template": {"metadata": {"creationTimestamp": null}, "spec": {"domain": ` +
			`{"devices": {}}}}}`, nil},
		"a time": {`{"template": {"metadata": {"creationTimestamp": "today"}, "spec": {"domain": ` +
			`{"devices": {}}}}}`, []string{
			`spec.template.metadata.creationTimestamp in body must be of type date-time: "today"`}},
		"embedded struct": {`{"template": {"spec": {"domain": {"devices": {"disks": [{"name": "a", "disk": {"bus": ` +
			`1}}]}}}}}`, []string{`spec.template.spec.domain.devices.disks.disk.bus in body must be of type string: ` +
			`"number"`}},
		"a quantity": {`{"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": 1e9}}}}}`, nil},
		"not a quantity": {`{"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": true}}}}}`,
			[]string{`spec.template.spec.domain.memory.guest in body must be of type string,integer,number: "boolean"`}},
		"a map": {`{"template": {"spec": {"nodeSelector": {"a": 1}, "domain": {"devices": {}}}}}`,
			[]string{`spec.template.spec.nodeSelector.a in body must be of type string: "number"`}},
		"first the unknown": {`{"x": 1, "template": {"spec": {"domain": {}}}}`,
			[]string{"spec.x in body is a forbidden property",
				"spec.template.spec.domain.devices in body is required"}},
		"name missing": {`{"template": {"spec": {"domain": {"devices": {"disks": [{}]}}}}}`, nil},
		"listed once": {`{"template": {"spec": {"domain": {"devices": {}}, "volumes": [{"emptyDisk": {}}, ` +
			`{"emptyDisk": {}}]}}}`, []string{"spec.template.spec.volumes.emptyDisk.capacity in body is required"}},
		"a fraction": {`{"template": {"spec": {"domain": {"devices": {}}, ` +
			`"terminationGracePeriodSeconds": 1.5}}}`,
			[]string{`spec.template.spec.terminationGracePeriodSeconds in body must be of type int64: "float64"`}},
		"too large": {`{"template": {"spec": {"domain": {"devices": {}, "clock": {"utc": {"offsetSeconds": ` +
			`1e18}}}}}}`, []string{`spec.template.spec.domain.clock.utc.offsetSeconds in body must be of type int32: ` +
			`"float64"`}},
		"not a number": {`{"template": {"spec": {"domain": {"devices": {}, "cpu": {"cores": "1", "sockets": ` +
			`true}}}}}`, []string{`spec.template.spec.domain.cpu.cores in body must be of type integer: "string"`,
			`spec.template.spec.domain.cpu.sockets in body must be of type int64: ""`}},
		"object for text": {`{"template": {"spec": {"domain": {"devices": {}, "memory": {"guest": {"a": 1}}}}}}`,
			[]string{`spec.template.spec.domain.memory.guest in body must be of type string,integer,number: "object"`,
				"spec.template.spec.domain.memory.guest.a in body is a forbidden property"}},
		"not a list": {`{"template": {"spec": {"domain": {"devices": {}}}}, "dataVolumeTemplates": [{"spec": ` +
			`{"pvc": {"accessModes": "ReadWriteOnce"}}}]}`,
			[]string{`spec.dataVolumeTemplates.spec.pvc.accessModes in body must be of type array: "string"`}},
		"one of few": {`{"template": {"spec": {"tolerations": [{"effect": "Never"}], "domain": ` +
			`{"devices": {}}}}}`, []string{
			"spec.template.spec.tolerations.effect in body should be one of [NoExecute NoSchedule PreferNoSchedule]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var value any
			require.NoError(t, json.Unmarshal([]byte(c.value), &value))
			require.Equal(t, c.found, spec.Check(value, "spec", true))
		})
	}
	require.Empty(t, Compile(kubevirtv1.VirtualMachineStatus{}).Check(map[string]any{"later": true}, "status", false),
		"what is not strict lets unknown fields pass")
}

func TestFindingsAreBounded(t *testing.T) {
	list, labels := make([]any, 10*maxFindings), map[string]any{}
	for i := range 10 * maxFindings {
		labels[strconv.Itoa(i)] = i
	}
	require.Len(t, Compile(map[string]string{}).Check(labels, "labels", false), maxFindings)
	require.Len(t, Compile([]kubevirtv1.Disk{}).Check(list, "disks", false), 1, "the same of each")
	require.Equal(t, []string{"disks in body should have at most 1000 items"},
		Compile([]kubevirtv1.Disk{}).Check(list, "disks", true))
	c := checker{seen: map[string]bool{}}
	for range 100 * maxFindings {
		c.add("the same")
	}
	require.Len(t, c.found, 1)
	require.Equal(t, 10*maxFindings, c.tries, "no more work than that is done for what was listed before")
}
