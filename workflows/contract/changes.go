package contract

// SignalContinueAsNew asks an entity to continue as new as soon as nothing is in hand: its next run begins with the logic of the worker that
// takes it.
const SignalContinueAsNew = "continue-as-new"

// Changes are the IDs of what changed in the entities' logic since the floor, oldest first: each is the change ID of one workflow.GetVersion.
// Each run asks for all of them when it begins, so one that lacks the newest runs with older logic throughout.
func Changes() []string { return nil }
