package contract

// ChangeAfterFirst is the change ID of all that entities do otherwise than in v0.1.0. The release after v0.1.0 is the
// first that has it:
//
//   - a migration gives its position back while no node has room for its target's pod, and shows why;
//   - the migration queue shares positions among namespaces;
//   - an instance reads why its pod does not start, shows why a migration's target has no node, signals its launcher
//     when the grace period is cut short, and shows how its guest ended before it is gone;
//   - a VM removes the conditions of its last instance, reads nothing after a refused start, shows a failing start as
//     stopped, writes its status while others' finalizers keep it, and follows its own generation once its instance
//     ends;
//   - a node takes evictions back with the end of its cordon, drains by the taint that the KubeVirt object names as
//     soon as that changes, and does not offer the CPU models that the object names.
const ChangeAfterFirst = "after-v0.1.0"

// Changes returns the change IDs of what has changed in the entities' logic since the floor, oldest first. A run keeps
// to those that there were when it began.
func Changes() []string { return []string{ChangeAfterFirst} }
