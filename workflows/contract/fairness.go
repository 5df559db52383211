package contract

// FairnessKey is what workflows take turns by in Temporal's task queues, if the server has that on. Namespaces do, and
// of each namespace its entities, its transitions and migrations, and its instances do. A start passes through a
// workflow of each kind, and would otherwise wait three times behind every start that was asked for meanwhile: of many
// that are asked for at once, the first would run when nearly the last does. A key has 64 bytes at most, and the name
// of a namespace 63.
func FairnessKey(namespace, workflow string) string {
	switch workflow {
	case WorkflowStartVM, WorkflowStopVM, WorkflowRestartVM, WorkflowReplicate, WorkflowMigration, WorkflowDrain:
		return ":" + namespace
	case WorkflowVMI:
		return "/" + namespace
	default:
		return namespace
	}
}

// PriorityKey is what goes before what, in the same queues: nodes, their drains and what admits migrations, which
// belong to no namespace and are few, before what users of namespaces can ask for in any number. 0 is Temporal's
// default, 3.
func PriorityKey(namespace string) int {
	if namespace == "" {
		return 2
	}
	return 0
}
