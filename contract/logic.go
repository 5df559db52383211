package contract

// SignalContinueAsNew asks an entity to continue as new as soon as nothing is in hand: its next run begins with the
// logic of the worker that takes it.
const SignalContinueAsNew = "continue-as-new"

// Logic is the change ID by which a run says with which changes it began, as they were in its release: the newest of
// them. Where there are none, a run says so only where it would otherwise keep what the run before it said. No change
// has the ID "none".
func Logic(changes []string) string {
	newest := "none"
	if len(changes) > 0 {
		newest = changes[len(changes)-1]
	}
	return "logic:" + newest
}

// ListedLogic is Logic as Temporal lists it among a run's change IDs, with the version that GetVersion was given.
func ListedLogic(changes []string) string { return Logic(changes) + "-1" }
