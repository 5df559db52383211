package contract

// FairnessKey is by what workflows take turns in Temporal's task queues, if the server has that on. Namespaces do; and
// within one, its VMs, their transitions, and their instances, each kind for itself. A start passes through all three,
// and would else wait at each of them behind every start that was asked for meanwhile: of many that are asked for at
// once the first would run when nearly the last does. A key has 64 bytes at most, and a namespace's name 63.
func FairnessKey(namespace, workflow string) string {
	switch workflow {
	case WorkflowStartVM, WorkflowStopVM, WorkflowRestartVM, WorkflowReplicate, WorkflowDrain:
		return ":" + namespace
	case WorkflowVMI:
		return "/" + namespace
	default:
		return namespace
	}
}
