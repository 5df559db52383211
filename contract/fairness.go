package contract

// FairnessKey returns the fairness key of a workflow in Temporal's task queues, if the server has fairness enabled.
// Each namespace has keys for its entities, for its transitions and migrations, and for its instances. A start passes
// through a workflow of each kind, and with one key would wait three times behind all starts that were requested
// meanwhile: of many requested at once, the first would run when nearly the last does. A key has at most 64 bytes, and
// the name of a namespace 63.
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

// PriorityKey returns the priority in the same queues; lower runs first: nodes, their drains and the migration queue,
// which belong to no namespace and are few, before what users of namespaces can request in any number. 0 is Temporal's
// default, 3.
func PriorityKey(namespace string) int {
	if namespace == "" {
		return 2
	}
	return 0
}
