package contract

// Activities that read what is true now (package activities/cluster). An entity without memory, or with that of an
// older copy of Temporal's database, asks before it decides anything.
const (
	ActivityReadVM  = "ReadVM"
	ActivityReadVMI = "ReadVMI"
)

// ReadVMInput asks for a VirtualMachine and the instance of its name.
type ReadVMInput struct {
	VM Object `json:"vm"`
}

// ReadVMResult has the current VM and instance. VM is nil where there is none of that UID, and VMI where there is none,
// or one that another object controls.
type ReadVMResult struct {
	VM  *VMObservation  `json:"vm,omitempty"`
	VMI *VMIObservation `json:"vmi,omitempty"`
}

// ReadVMIInput asks for a VirtualMachineInstance and its launcher pods, which are found as FindPodInput says.
type ReadVMIInput struct {
	VMI   Object   `json:"vmi"`
	Known []Object `json:"known,omitempty"`
}

// ReadVMIResult has all as they are now. VMI is nil where there is none of that UID.
type ReadVMIResult struct {
	VMI *VMIObservation `json:"vmi,omitempty"`
	FindPodResult
	Migratable *Migratable `json:"migratable,omitempty"`
}
