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

// ReadVMResult has both as they are now. VM is nil where there is none of that UID, and VMI where there is none, or one
// that another object controls.
type ReadVMResult struct {
	VM  *VMObservation  `json:"vm,omitempty"`
	VMI *VMIObservation `json:"vmi,omitempty"`
}

// ReadVMIInput asks for a VirtualMachineInstance and its launcher pod.
type ReadVMIInput struct {
	VMI Object `json:"vmi"`
	// PodUID is that of the pod in hand ("": none): a pod of that UID is the one, whatever it says of itself.
	PodUID string `json:"podUID,omitempty"`
}

// ReadVMIResult has both as they are now. VMI is nil where there is none of that UID, and Pod where there is none that
// belongs to it. Where no pod is in hand and the name is taken by one that says it is somebody else's, the answer is an
// error of type ErrorConflict.
type ReadVMIResult struct {
	VMI *VMIObservation `json:"vmi,omitempty"`
	Pod *PodObservation `json:"pod,omitempty"`
}
