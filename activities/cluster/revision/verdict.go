package revision

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Messages of the condition RestartRequired, and of what has to wait, as KubeVirt has them.
const (
	// NotLive is followed by the fields.
	NotLive          = "a non-live-updatable field was changed in the template spec"
	socketsTooMany   = "CPU sockets updated in template spec to a value higher than what's available"
	socketsFewer     = "Reduction of CPU socket count requires a restart"
	socketsARM       = "ARM doesn't support CPU hotplug"
	memoryMigratable = "memory updated in template spec. Memory-hotplug is only available for migratable VMs"
	memoryNotHere    = "memory updated in template spec. Memory-hotplug is not available for this VM configuration"
	memoryLower      = "memory updated in template spec to a value lower than what the VM started with"
	affinityMoves    = "Node affinity should not be changed during VMI migration"
	tolerationsMove  = "tolerations should not be changed during VMI migration"
	memoryHigher     = "memory updated in template spec to a value higher than what's available"
)

// Subject has the objects from which a verdict follows.
type Subject struct {
	// Last is the specification that the instance was started with; nil when no record of it is left.
	Last *kubevirt.VirtualMachineSpec
	VM   *kubevirt.VirtualMachine
	VMI  *kubevirt.VirtualMachineInstance
	// Next is the specification, with defaults, of an instance that the VM would make now; nil: it cannot make one.
	Next *kubevirt.VirtualMachineInstanceSpec
	// LiveUpdate is the cluster's rollout strategy; otherwise it is Stage.
	LiveUpdate bool
}

// Verdict has what follows for the instance.
type Verdict struct {
	// Fields are the paths below the template's spec that differ from what the instance was started with, and from what
	// it has.
	Fields []string
	// RestartRequired is the message of that condition, "" when none is needed.
	RestartRequired string
	// Generation is for the instance's annotation; 0: the annotation has it already.
	Generation int64
	// Refused is why something cannot be changed now ("": all can).
	Refused string
	// Patch changes the instance (empty: nothing is to change).
	Patch []Operation
}

// rule is one row of the table of fields that a running instance need not be restarted for, or not with the usual
// message.
type rule struct {
	field string
	// live: the row counts under LiveUpdate only.
	live bool
	// restart is the message if the instance has to be restarted after all; nil: never.
	restart func(Subject) string
}

// rules is the table. What a running instance takes over live is in patch.go. CPUs and memory are to be plugged in one
// day; until then they need a restart, for the reasons that KubeVirt gives when it cannot either.
func rules() []rule {
	return []rule{
		{field: "domain.firmware.uuid", restart: func(s Subject) string {
			if f := s.VMI.Spec.Domain.Firmware; f != nil && f.UUID != "" {
				return ""
			}
			return NotLive
		}},
		{field: "nodeSelector", live: true},
		{field: "affinity", live: true},
		{field: "tolerations", live: true},
		{field: "domain.cpu.sockets", live: true, restart: sockets},
		{field: "domain.memory.guest", live: true, restart: memory},
	}
}

// Compare finds out what follows from the difference between a VM and the instance that it made.
func Compare(s Subject) (Verdict, error) {
	var v Verdict
	same := false
	if s.Last != nil {
		var err error
		if v.Fields, err = changed(s); err != nil {
			return Verdict{}, err
		}
		v.RestartRequired = restartMessage(s, v.Fields)
		metadata, err := Fields(template(s.Last).ObjectMeta, template(&s.VM.Spec).ObjectMeta)
		if err != nil {
			return Verdict{}, err
		}
		same = len(v.Fields)+len(metadata) == 0
	}
	v.Generation = generation(s, same)
	if err := v.patch(s); err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// changed lists what has changed in the template since the instance was started, without what the instance has already:
// by default, or because it follows its VM.
func changed(s Subject) ([]string, error) {
	fields, err := Fields(template(s.Last).Spec, template(&s.VM.Spec).Spec)
	if err != nil || len(fields) == 0 || s.Next == nil {
		return fields, err
	}
	lacks, err := Fields(s.VMI.Spec, *s.Next)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fields, func(f string) bool {
		return !slices.ContainsFunc(lacks, func(l string) bool { return isBelow(l, f) || isBelow(f, l) })
	}), nil
}

// restartMessage returns why the changed fields need a restart of the guest; "" if all are applied to it live.
func restartMessage(s Subject, fields []string) string {
	special := ""
	var cold []string
	for _, f := range fields {
		r := ruleOf(s, f)
		if r == nil {
			cold = append(cold, f)
			continue
		}
		if r.restart == nil {
			continue
		}
		switch m := r.restart(s); {
		case m == NotLive:
			cold = append(cold, f)
		case special == "":
			special = m
		}
	}
	if len(cold) == 0 {
		return special
	}
	return listFields(NotLive, cold)
}

// Bounds of the message that names fields: how many, and its length in bytes.
const (
	maxNamed   = 4
	maxMessage = 512
)

// listFields appends the names of the first maxNamed fields to a message, and the number of the others.
func listFields(message string, fields []string) string {
	more := len(fields) - maxNamed
	message += ": " + strings.Join(fields[:min(len(fields), maxNamed)], ", ")
	if more > 0 {
		message += " and " + strconv.Itoa(more) + " more"
	}
	return contract.Cut(message, maxMessage)
}

func ruleOf(s Subject, field string) *rule {
	all := rules()
	i := slices.IndexFunc(all, func(r rule) bool { return isBelow(field, r.field) && (s.LiveUpdate || !r.live) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// sockets: no CPU can be plugged in, so that what is available is what there is.
func sockets(s Subject) string {
	var want, has, limit uint32 = 1, 1, 0
	if c := template(&s.VM.Spec).Spec.Domain.CPU; c != nil {
		want = max(1, c.Sockets)
	}
	if c := s.VMI.Spec.Domain.CPU; c != nil {
		has, limit = max(1, c.Sockets), c.MaxSockets
	}
	switch {
	case want == has:
		return ""
	case want > has && want > limit:
		return socketsTooMany
	case want < has:
		return socketsFewer
	case s.VMI.Spec.Architecture == "arm64":
		return socketsARM
	default:
		return NotLive
	}
}

func memory(s Subject) string {
	var want, has, limit *resource.Quantity
	if m := template(&s.VM.Spec).Spec.Domain.Memory; m != nil {
		want = m.Guest
	}
	if m := s.VMI.Spec.Domain.Memory; m != nil {
		has, limit = m.Guest, m.MaxGuest
	}
	migratable := slices.ContainsFunc(s.VMI.Status.Conditions, func(c kubevirt.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirt.VirtualMachineInstanceIsMigratable && c.Status == "True"
	})
	switch {
	case want == nil || has == nil:
		return NotLive
	case want.Cmp(*has) == 0:
		return ""
	case !migratable:
		return memoryMigratable
	case limit == nil:
		return memoryNotHere
	case want.Cmp(*has) < 0:
		return memoryLower
	case want.Cmp(*limit) > 0:
		return memoryHigher
	default:
		return memoryNotHere
	}
}

// generation: an instance whose VM has the same template as when it was started follows the VM as it is. One that does
// not say which VM it was made from is as old as the revision that it names.
func generation(s Subject, same bool) int64 {
	has, err := strconv.ParseInt(s.VMI.Annotations[contract.AnnotationVMGeneration], 10, 64)
	want := has
	if err != nil {
		name := s.VMI.Status.VirtualMachineRevisionName
		want, _ = strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	}
	if same {
		want = s.VM.Generation
	}
	if want == has {
		return 0
	}
	return want
}

func template(spec *kubevirt.VirtualMachineSpec) *kubevirt.VirtualMachineInstanceTemplateSpec {
	if spec.Template == nil {
		return &kubevirt.VirtualMachineInstanceTemplateSpec{}
	}
	return spec.Template
}
