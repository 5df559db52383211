// Package vm is the entity that owns one VirtualMachine object, and its transitions.
//
//	state.go      what is known, and how observations are folded into it
//	plan.go       the planner: what to do next, from the state alone
//	controls.go   what a person may ask of it: hold, release, approval and the like
//	datavolumes.go the DataVolumes of its templates: made, and waited for
//	backoff.go    the pause after instances that never ran
//	conditions.go the conditions, from the state alone
//	status.go     the status that users see, from the state alone
//	actions.go    the steps themselves
//	open.go       how a transition begins and how it ended
//	ending.go     what follows from the VM's deletion, from the end of its instance on
//	workflow.go   the loop
//	start.go, stop.go, restart.go
//	              the transitions: child workflows with a deadline
//	transition.go what the transitions share
//
// # What happens when somebody stops a VM
//
// 1. The desired state. `virtctl stop` reaches the api server's subresource, which writes spec.runStrategy Halted.
// Under the strategies that are not changed by a stop (Manual, RerunOnFailure) it appends a Stop request with the
// instance's UID to status.stateChangeRequests instead. Whoever writes either by hand does the same. Nobody has talked
// to Temporal yet.
//
// 2. The observation. crdwatch sees the change, and signals the run strategy, the requests and the version to the
// workflow vm/<namespace>/<name>. The entity folds it into its state, if it is newer than what it knows (state.go).
//
// 3. The decision. internal/runstrategy says what is desired of a VM of that strategy with an instance that is alive: a
// stop. The planner first cancels a start that is open, and waits for a person where the VM is held or the stop needs
// approval. Then it opens the transition (plan.go, controls.go).
//
// 4. The transition. The child workflow vm/<namespace>/<name>/<uid>/stop/<n> knows who asked and why. It has the
// guest's grace period and three minutes. The activity DeleteVMI reads the VM and the VirtualMachineInstance, and
// deletes that very version of it if the VM asks for that at this moment; otherwise the planner decides again. The
// child waits (stop.go). The VM shows Stopping.
//
// 5. The pod. The VMI stays, since it has a finalizer. crdwatch signals its deletionTimestamp to
// vmi/<namespace>/<name>, which deletes the launcher pod with the guest's grace period and half a minute more (package
// workflows/vmi: decideEnding). The pod stays as well: it has virtflow's finalizer, so that its end cannot be missed.
//
// 6. The launcher. The kubelet sends SIGTERM to the launcher, the pod's process. It presses the guest's power button
// (ACPI), and again from time to time while nothing happens. When the guest's grace period has passed it destroys the
// domain. The table is in launcher/lifecycle. When the guest is off, by itself or not, the launcher writes why as the
// pod's termination message and exits. That is its last act. (Where the pod was deleted as its containers began, the
// launcher may not have heard the signal: then the VMI's entity has the node's worker tell it.) A kubelet that has
// waited for the pod's whole grace period kills what is left.
//
// 7. The way back. The kubelet reports that the pod has ended, crdwatch signals it, and the VMI's entity removes the
// pod's finalizer. When the pod is gone, one patch writes the VMI's last phase (Succeeded, or Failed) and removes its
// finalizers. The VMI vanishes, and its workflow completes.
//
// 8. The end. crdwatch signals to the VM's entity that its instance is gone. The entity signals that as progress to the
// child, which completes; the entity records the outcome, and the VM shows Stopped.
//
// Where a step fails it is tried again after a pause, and condition Failure of the VM or Synchronized of the VMI says
// what failed. Where the node does not answer, nothing proves that the guest is off: the transition ends with its
// deadline, the VMI shows NodeLost, and no other instance is made until the node is fenced (workflows/vmi/lost.go).
// With Temporal or virtflow's processes gone after step 5, the guest still shuts down, since only the kubelet and the
// launcher take part in that.
package vm
