package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

const replicaSet = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "metadata": {"name": "web", "namespace": "demo"}, "spec": {
	"selector": {"matchLabels": {"app": "web"}},
	"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"domain": {"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}, "memory": {"guest": "128Mi"}},
		"volumes": [{"name": "root", "containerDisk": {"image": "guest:v1"}}]}}}}`

func TestDefaultsThenAcceptsReplicaSet(t *testing.T) {
	set := mutate[kubevirtv1.VirtualMachineInstanceReplicaSet](t,
		call{path: PathMutateVMIRS, operation: admissionv1.Create}, replicaSet)
	require.EqualValues(t, 1, *set.Spec.Replicas)
	require.Equal(t, "alice", set.Annotations[contract.AnnotationRequestedBy])
	require.Equal(t, "1", set.Annotations[contract.AnnotationRequestedGeneration])
	completed, err := json.Marshal(set)
	require.NoError(t, err)
	resp := ask(t, call{path: PathValidateVMIRS, operation: admissionv1.Create}, string(completed))
	require.True(t, resp.Allowed, "%v", resp.Result)
}

func TestRecordsUserOfScale(t *testing.T) {
	change := func(f func(*kubevirtv1.VirtualMachineInstanceReplicaSet)) string {
		var set kubevirtv1.VirtualMachineInstanceReplicaSet
		require.NoError(t, json.Unmarshal([]byte(replicaSet), &set))
		n := int32(2)
		set.Spec.Replicas, set.Generation = &n, 4
		set.Annotations = map[string]string{contract.AnnotationRequestedBy: "carol",
			contract.AnnotationRequestedGeneration: "3"}
		if f != nil {
			f(&set)
		}
		raw, err := json.Marshal(set)
		require.NoError(t, err)
		return string(raw)
	}
	before := change(nil)
	forge := func(set *kubevirtv1.VirtualMachineInstanceReplicaSet) {
		set.Annotations = map[string]string{contract.AnnotationRequestedBy: "mallory",
			contract.AnnotationRequestedGeneration: "4"}
	}
	scale := func(set *kubevirtv1.VirtualMachineInstanceReplicaSet) { forge(set); *set.Spec.Replicas = 5 }
	for _, c := range []struct{ what, object, by, generation string }{
		{"the spec changes", change(scale), "bob", "5"},
		{"the spec does not change", change(forge), "carol", "3"},
	} {
		set := mutate[kubevirtv1.VirtualMachineInstanceReplicaSet](t,
			call{path: PathMutateVMIRS, operation: admissionv1.Update, user: "bob", old: before}, c.object)
		require.Equal(t, c.by, set.Annotations[contract.AnnotationRequestedBy], c.what)
		require.Equal(t, c.generation, set.Annotations[contract.AnnotationRequestedGeneration], c.what)
	}
}

func TestRefusesReplicaSets(t *testing.T) {
	for name, c := range map[string]struct{ replace, by, field, message string }{
		"no template": {`"template"`, `"paused": false}}`, "", "spec.template in body is required"},
		"another selector": {`"matchLabels": {"app": "web"}`, `"matchLabels": {"app": "db"}`, "spec.selector",
			"selector does not match labels."},
		"no selector": {`"selector": {"matchLabels": {"app": "web"}},`, ``, "",
			"spec.selector in body is required"},
		"one that says nothing": {`"matchLabels": {"app": "web"}`, ``, "spec.selector", "selector must not be empty"},
		"one that is wrong": {`"matchLabels": {"app": "web"}`,
			`"matchExpressions": [{"key": "app", "operator": "Like"}]`, "spec.selector",
			`"Like" is not a valid label selector operator`},
		"one of many bytes": {`"matchLabels": {"app": "web"}`,
			`"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["` + strings.Repeat("a", 63) +
				strings.Repeat(`","`+strings.Repeat("b", 63), 70) + `"]}]`, "spec.selector",
			"selector has 4555 bytes, and can have 4096 at most"},
		"fewer than none": {`"selector"`, `"replicas": -1, "selector"`, "spec.replicas",
			"must be greater than or equal to 0."},
		"more than can be": {`"selector"`, `"replicas": 1001, "selector"`, "spec.replicas",
			"a replica set can have 1000 replicas at most"},
		"no memory": {`"memory": {"guest": "128Mi"}`, `"memory": {}`, "", "no memory requested"},
		"a rule of VMIs": {`"name": "root", "disk"`, `"name": "boot", "disk"`,
			"spec.template.spec.domain.devices.disks[0].name", "not found"},
		"many finalizers": {`"metadata": {"labels": {"app": "web"}}`,
			`"metadata": {"labels": {"app": "web"}, "finalizers": ["a/b"` +
				strings.Repeat(`, "a/b"`, 30) + `]}`, "spec.template.metadata.finalizers", "there are 31, and can be 30 at most"},
		"reserved labels": {`"metadata": {"labels": {"app": "web"}}`,
			`"metadata": {"labels": {"app": "web", "kubevirt.io/nodeName": "n"}}`, "spec.template.metadata.labels",
			"reserved kubevirt.io/ labels"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, replicaSet, c.replace)
			object := strings.Replace(replicaSet, c.replace, c.by, 1)
			if name == "no template" {
				begin, _, _ := strings.Cut(replicaSet, c.replace)
				object = begin + c.by
			}
			for _, how := range []call{
				{path: PathValidateVMIRS, operation: admissionv1.Create},
				{path: PathValidateVMIRS, operation: admissionv1.Update, old: replicaSet},
			} {
				resp := ask(t, how, object)
				require.False(t, resp.Allowed)
				require.Contains(t, resp.Result.Message, c.message)
				require.Equal(t, c.field, resp.Result.Details.Causes[0].Field)
			}
		})
	}
}

func TestAllFieldsOfReplicaSetAreMutable(t *testing.T) {
	for _, change := range [][2]string{
		{`"selector"`, `"replicas": 7, "paused": true, "selector"`}, {`"128Mi"`, `"256Mi"`},
		{`{"app": "web"}`, `{"app": "db"}`},
	} {
		object := strings.ReplaceAll(replicaSet, change[0], change[1])
		resp := ask(t, call{path: PathValidateVMIRS, operation: admissionv1.Update, old: replicaSet}, object)
		require.True(t, resp.Allowed, "%v", resp.Result)
	}
	going := strings.Replace(replicaSet, `"name": "web"`, `"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"`,
		1)
	for _, path := range []string{PathMutateVMIRS, PathValidateVMIRS} {
		require.True(t, ask(t, call{path: path, operation: admissionv1.Update, old: going}, going).Allowed)
	}
}
