package entity

import "go.temporal.io/sdk/workflow"

// The versions of the entities' logic. A planner that decides otherwise than before on the same input, so that a recorded history would
// take another course, asks for the version of its run; everything else needs none. A run keeps the version that it began with.
const (
	// LogicFirst is that of histories from before there was a second.
	LogicFirst = 0
	// LogicThrifty writes no status that the next step makes old at once: fewer requests for a stop and a deletion.
	LogicThrifty = 1

	logicLatest = LogicThrifty
)

// Logic is the version of this run: the latest when it begins now, or the one that it began with when it is replayed.
func Logic(ctx workflow.Context) int {
	return max(LogicFirst, int(workflow.GetVersion(ctx, "logic", workflow.DefaultVersion, logicLatest)))
}
