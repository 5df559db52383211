package entity

import "go.temporal.io/sdk/workflow"

// Version is one of the entities' logic. A planner that decides otherwise than before on the same input, so that a recorded history would
// take another course, asks for the version of its run; everything else needs none. A run keeps the version that it began with.
type Version int

const (
	// LogicFirst is that of histories from before there was a second.
	LogicFirst Version = 0
	// LogicThrifty writes no status that the next step makes old at once: fewer requests for a stop and a deletion.
	LogicThrifty Version = 1
	// LogicSealed decides as LogicThrifty does, and keeps workers of before there were versions away from the run.
	LogicSealed Version = 2
	// LogicDoubting does not take a write that failed for one that did nothing: its answer may be all that was lost. The status is written
	// again although it says what was last known to be written. It also writes small progress of a replica set that lasts.
	LogicDoubting Version = 3
	// LogicHeeding heeds what runs of before took no notice of: reports of who asked, a guest's frozen file systems, and that marking a pod
	// failed, which may have been done all the same. It answers an operation before it writes what has come of it.
	LogicHeeding Version = 4

	// LogicLatest is what runs that begin now decide by.
	LogicLatest = LogicHeeding
)

// Logic is the version of this run: the latest when it begins now, or the one that it began with when it is replayed.
//
// In a rolling update a worker that is older may get the run's next task. One that knows of versions fails the task, as it does not know this one,
// and the task waits for a newer worker. One from before skips the version's marker when it replays, and would go on by its own logic, with what
// no newer worker could replay any more; the marker of a side effect it cannot skip.
func Logic(ctx workflow.Context) Version {
	version := max(LogicFirst, Version(workflow.GetVersion(ctx, "logic", workflow.DefaultVersion, workflow.Version(LogicLatest))))
	if version >= LogicSealed {
		workflow.SideEffect(ctx, func(workflow.Context) any { return version })
	}
	return version
}

// Thrifty says that a run of this version decides as since LogicThrifty.
func (v Version) Thrifty() bool { return v >= LogicThrifty }

// Doubting says the same of LogicDoubting.
func (v Version) Doubting() bool { return v >= LogicDoubting }

// Heeding says the same of LogicHeeding.
func (v Version) Heeding() bool { return v >= LogicHeeding }
