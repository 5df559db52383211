package revision

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

const started = `{"runStrategy": "Always", "template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {
	"architecture": "amd64",
	"domain": {"cpu": {"cores": 1, "sockets": 2}, "memory": {"guest": "1Gi"}, "firmware": {"uuid": "u"},
		"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}], "interfaces": [{"name": "default", "masquerade": {}}]}},
	"networks": [{"name": "default", "pod": {}}],
	"volumes": [{"name": "root", "containerDisk": {"image": "a:1"}}]}}}`

// subject starts an instance from the specification above, and then changes the VM by a merge patch.
func subject(t *testing.T, live bool, change string) Subject {
	t.Helper()
	last, err := Spec(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"spec": ` + started + `}`)}})
	require.NoError(t, err)
	now, err := jsonpatch.MergePatch([]byte(started), []byte(change))
	require.NoError(t, err)
	vm := &kubevirt.VirtualMachine{}
	vm.UID, vm.Generation = "v", 7
	require.NoError(t, json.Unmarshal(now, &vm.Spec))
	vmi := &kubevirt.VirtualMachineInstance{Spec: *last.Template.Spec.DeepCopy()}
	vmi.UID = "i"
	vmi.Annotations = map[string]string{contract.AnnotationVMGeneration: "3"}
	vmi.Status.VirtualMachineRevisionName = "revision-start-vm-v-3"
	return Subject{Last: last, VM: vm, VMI: vmi, LiveUpdate: live}
}

func TestVerdicts(t *testing.T) {
	template := func(spec string) string { return `{"template": {"spec": ` + spec + `}}` }
	for name, c := range map[string]struct {
		change      string
		fields      []string
		stage, live string // messages
		follows     bool   // the instance follows the VM's generation
	}{
		"nothing":                       {`{}`, nil, "", "", true},
		"the run strategy":              {`{"runStrategy": "Halted"}`, nil, "", "", true},
		"another way to write a number": {template(`{"domain": {"memory": {"guest": "1024Mi"}}}`), nil, "", "", true},
		"a label of the template":       {`{"template": {"metadata": {"labels": {"app": "db"}}}}`, nil, "", "", false},
		"an image": {
			template(`{"volumes": [{"name": "root", "containerDisk": {"image": "a:2"}}]}`),
			[]string{"volumes[0].containerDisk.image"}, NotLive, NotLive, false},
		"a disk more": {
			template(`{"domain": {"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": "b", ` +
				`"disk": {}}]}}}`), []string{"domain.devices.disks[1].disk", "domain.devices.disks[1].name"}, NotLive,
			NotLive, false},
		"a hostname": {template(`{"hostname": "x"}`), []string{"hostname"}, NotLive, NotLive, false},
		"cores": {template(`{"domain": {"cpu": {"cores": 4}}}`), []string{"domain.cpu.cores"},
			NotLive, NotLive, false},
		"the firmware's UUID": {template(`{"domain": {"firmware": {"uuid": null}}}`),
			[]string{"domain.firmware.uuid"}, "", "", false},
		"more sockets": {template(`{"domain": {"cpu": {"sockets": 3}}}`),
			[]string{"domain.cpu.sockets"}, NotLive, socketsTooMany, false},
		"fewer sockets": {template(`{"domain": {"cpu": {"sockets": 1}}}`),
			[]string{"domain.cpu.sockets"}, NotLive, socketsFewer, false},
		"no sockets": {template(`{"domain": {"cpu": {"sockets": null}}}`),
			[]string{"domain.cpu.sockets"}, NotLive, socketsFewer, false},
		"more memory": {template(`{"domain": {"memory": {"guest": "2Gi"}}}`),
			[]string{"domain.memory.guest"}, NotLive, memoryMigratable, false},
		"sockets and memory": {template(`{"domain": {"cpu": {"sockets": 3}, "memory": {"guest": "2Gi"}}}`),
			[]string{"domain.cpu.sockets", "domain.memory.guest"}, NotLive, socketsTooMany, false},
		"sockets and cores": {template(`{"domain": {"cpu": {"sockets": 3, "cores": 2}}}`),
			[]string{"domain.cpu.cores", "domain.cpu.sockets"}, NotLive, NotLive + ": domain.cpu.cores", false},
		"a node selector": {template(`{"nodeSelector": {"a": "b"}}`), []string{"nodeSelector.a"}, NotLive,
			"", false},
		"a toleration": {template(`{"tolerations": [{"key": "a"}]}`), []string{"tolerations[0].key"},
			NotLive, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for live, message := range map[bool]string{false: c.stage, true: c.live} {
				v, err := Compare(subject(t, live, c.change))
				require.NoError(t, err)
				require.Equal(t, c.fields, v.Fields)
				if message == NotLive {
					message += ": " + strings.Join(c.fields, ", ")
				}
				require.Equal(t, message, v.RestartRequired, "live update: %v", live)
				if c.follows {
					require.EqualValues(t, 7, v.Generation)
				} else {
					require.Zero(t, v.Generation)
				}
			}
		})
	}
}

// TestWhatTheInstanceHasAlready: a value that the instance has already, perhaps by default, is no change.
func TestWhatTheInstanceHasAlready(t *testing.T) {
	s := subject(t, false, `{"template": {"spec": {"domain": {"cpu": {"threads": 1, "model": "host-model"}}}}}`)
	has := s.VMI.Spec.Domain.CPU
	has.Threads, has.Model = 1, "host-model"
	s.Next = s.VM.Spec.Template.Spec.DeepCopy()
	v, err := Compare(s)
	require.NoError(t, err)
	require.Empty(t, v.Fields)
	require.Empty(t, v.RestartRequired)
	require.EqualValues(t, 7, v.Generation, "it follows the VM")

	s.VM.Spec.Template.Spec.Domain.CPU.Model, s.Next.Domain.CPU.Model = "EPYC", "EPYC"
	v, err = Compare(s)
	require.NoError(t, err)
	require.Equal(t, NotLive+": domain.cpu.model", v.RestartRequired)
	require.Zero(t, v.Generation)

	s.Next = nil // it cannot be filled in
	v, err = Compare(s)
	require.NoError(t, err)
	require.Equal(t, NotLive+": domain.cpu.model, domain.cpu.threads", v.RestartRequired)
}

// TestNamedFieldsAreBounded: a user may change very many.
func TestNamedFieldsAreBounded(t *testing.T) {
	selectors := map[string]string{}
	for i := range 9 {
		selectors[fmt.Sprintf("key-%d", i)] = "x"
	}
	s := subject(t, false, `{}`)
	s.VM.Spec.Template.Spec.NodeSelector = selectors
	v, err := Compare(s)
	require.NoError(t, err)
	require.Equal(t, NotLive+": nodeSelector.key-0, nodeSelector.key-1, nodeSelector.key-2, nodeSelector.key-3 and 5 more",
		v.RestartRequired)
	s.VM.Spec.Template.Spec.NodeSelector = map[string]string{strings.Repeat("k", 4096): "x"}
	v, err = Compare(s)
	require.NoError(t, err)
	require.LessOrEqual(t, len(v.RestartRequired), maxMessage)
}

func TestMemoryThatCouldBePlugged(t *testing.T) {
	s := subject(t, true, `{"template": {"spec": {"domain": {"memory": {"guest": "512Mi"}}}}}`)
	s.VMI.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{
		{Type: kubevirt.VirtualMachineInstanceIsMigratable, Status: "True"}}
	require.Equal(t, memoryNotHere, memory(s))
	limit := s.VMI.Spec.Domain.Memory.Guest.DeepCopy()
	s.VMI.Spec.Domain.Memory.MaxGuest = &limit
	require.Equal(t, memoryLower, memory(s))
	more := limit.DeepCopy()
	more.Add(limit)
	s.VM.Spec.Template.Spec.Domain.Memory.Guest = &more
	require.Equal(t, memoryHigher, memory(s))
}

// apply shows what a patch makes of the instance.
func apply(t *testing.T, s Subject, patch []Operation) *kubevirt.VirtualMachineInstance {
	t.Helper()
	before, err := json.Marshal(s.VMI)
	require.NoError(t, err)
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	p, err := jsonpatch.DecodePatch(raw)
	require.NoError(t, err)
	after, err := p.Apply(before)
	require.NoError(t, err, "%s", raw)
	out := &kubevirt.VirtualMachineInstance{}
	require.NoError(t, json.Unmarshal(after, out))
	return out
}

func TestPlacementFollowsLive(t *testing.T) {
	s := subject(t, true, `{"template": {"spec": {"nodeSelector": {"zone/x": "b"}, "tolerations": [{"key": "a"}],
		"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}]}}}}}}`)
	v, err := Compare(s)
	require.NoError(t, err)
	require.Equal(t, []string{"/spec/nodeSelector", "/spec/affinity", "/spec/tolerations"}, Changed(v.Patch))
	require.Equal(t, Operation{"test", "/metadata/uid", "i"}, v.Patch[0])
	s.VMI = apply(t, s, v.Patch)
	require.Equal(t, map[string]string{"zone/x": "b"}, s.VMI.Spec.NodeSelector)
	require.Len(t, s.VMI.Spec.Tolerations, 1)
	v, err = Compare(s)
	require.NoError(t, err)
	require.Empty(t, v.Patch, "done is done")

	// Another selector, and no tolerations any more: what was there is tested.
	s.VM.Spec.Template.Spec.NodeSelector = map[string]string{"zone/x": "c"}
	s.VM.Spec.Template.Spec.Tolerations = nil
	v, err = Compare(s)
	require.NoError(t, err)
	now := apply(t, s, v.Patch)
	require.Equal(t, "c", now.Spec.NodeSelector["zone/x"])
	require.Empty(t, now.Spec.Tolerations)
	raw, err := json.Marshal(v.Patch)
	require.NoError(t, err)
	p, err := jsonpatch.DecodePatch(raw)
	require.NoError(t, err)
	s.VMI.Spec.NodeSelector = map[string]string{"another": "node"}
	changed, err := json.Marshal(s.VMI)
	require.NoError(t, err)
	_, err = p.Apply(changed)
	require.Error(t, err)
}

func TestPlacementStaysWhereARestartIsNeededOrTheRolloutIsStaged(t *testing.T) {
	change := `{"template": {"spec": {"nodeSelector": {"a": "b"}}}}`
	v, err := Compare(subject(t, false, change))
	require.NoError(t, err)
	require.Empty(t, v.Patch)
	v, err = Compare(subject(t, true, `{"template": {"spec": {"nodeSelector": {"a": "b"}, "hostname": "x"}}}`))
	require.NoError(t, err)
	require.Empty(t, v.Patch)
	v, err = Compare(subject(t, true,
		`{"template": {"spec": {"nodeSelector": {"a": "b"}, "domain": {"cpu": {"sockets": 1}}}}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"/spec/nodeSelector"}, Changed(v.Patch),
		"a restart for CPUs alone does not hold up the rest")
}

func TestLiveAnnotations(t *testing.T) {
	key := LiveAnnotations()[0]
	s := subject(t, false, `{"template": {"metadata": {"annotations": {"`+key+`": "true", "other": "x"}}}}`)
	v, err := Compare(s)
	require.NoError(t, err)
	require.Empty(t, v.RestartRequired)
	s.VMI = apply(t, s, v.Patch)
	require.Equal(t, map[string]string{key: "true", contract.AnnotationVMGeneration: "3"}, s.VMI.Annotations)

	s.VM.Spec.Template.ObjectMeta.Annotations = nil
	v, err = Compare(s)
	require.NoError(t, err)
	require.Equal(t, map[string]string{contract.AnnotationVMGeneration: "7"}, apply(t, s, v.Patch).Annotations,
		"gone again, and with it the last difference")
}

func TestAnInstanceThatDoesNotSayWhatItWasMadeFrom(t *testing.T) {
	s := subject(t, false, `{"template": {"spec": {"hostname": "x"}}}`)
	s.VMI.Annotations = nil
	v, err := Compare(s)
	require.NoError(t, err)
	require.EqualValues(t, 3, v.Generation)
	require.Equal(t, "3", apply(t, s, v.Patch).Annotations[contract.AnnotationVMGeneration])

	s.Last = nil // its record is gone: nothing can be said of the rest
	v, err = Compare(s)
	require.NoError(t, err)
	require.Empty(t, v.RestartRequired)
	require.EqualValues(t, 3, v.Generation)
}

// TestPlacementWaitsForTheEndOfAMigration: a changed placement waits for the end of a migration; other changes do not.
func TestPlacementWaitsForTheEndOfAMigration(t *testing.T) {
	for name, c := range map[string]struct{ change, refused string }{
		"node selector": {`"nodeSelector": {"a": "b"}`, "Node affinity should not be changed during VMI migration"},
		"affinity and tolerations": {`"affinity": {"podAntiAffinity": {}}, "tolerations": [{"key": "a"}]`,
			"Node affinity should not be changed during VMI migration"},
		"tolerations": {`"tolerations": [{"key": "a"}]`, "tolerations should not be changed during VMI migration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(t, true, `{"template": {"metadata": {"annotations": `+
				`{"descheduler.alpha.kubernetes.io/evict": "true"}}, "spec": {`+c.change+`}}}`)
			for _, m := range []struct {
				state   *kubevirt.VirtualMachineInstanceMigrationState
				refused string
			}{
				{&kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "m"}, c.refused},
				{&kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "m", Completed: true}, ""},
				{&kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "m", Failed: true}, ""},
				{nil, ""},
			} {
				s.VMI.Status.MigrationState = m.state
				v, err := Compare(s)
				require.NoError(t, err)
				require.Equal(t, m.refused, v.Refused)
				changed := Changed(v.Patch)
				require.Contains(t, changed, "/metadata/annotations/descheduler.alpha.kubernetes.io~1evict")
				require.Equal(t, m.refused != "", len(changed) == 1, "%v", changed)
			}
		})
	}
}
