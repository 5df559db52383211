// Package vm is the entity that owns one VirtualMachine object, and its transitions.
//
//	state.go      the state, and how observations are folded into it
//	plan.go       the planner: the next step, from the state alone
//	controls.go   the controls: hold, release, approve and the like
//	datavolumes.go the DataVolumes of its templates: created and awaited
//	backoff.go    the back-off after instances that never ran, or ended too often
//	conditions.go the conditions, from the state alone
//	status.go     the status that users see, from the state alone
//	actions.go    the steps
//	open.go       opening a transition, and its outcome
//	ending.go     the steps of a VM's deletion, from the end of its instance on
//	overdue.go    an instance that is not gone by its deadline
//	workflow.go   the loop
//	start.go, stop.go, restart.go
//	              the transitions: child workflows with a deadline
//	transition.go what the transitions share
//
// # What happens when a user stops a VM
//
// 1. The desired state. `virtctl stop` reaches the api server's subresource, which writes spec.runStrategy Halted.
// Under the strategies that are not changed by a stop (Manual, RerunOnFailure) it appends a Stop request with the
// instance's UID to status.stateChangeRequests instead. A user may write either by hand. No call has reached Temporal
// yet.
//
// 2. The observation. crdwatch sees the change, and signals the run strategy, the requests and the version to the
// workflow vm/<namespace>/<name>. The entity folds it into its state, if it is newer than what it knows (state.go).
//
// 3. The decision. internal/runstrategy returns the desired action for that strategy with an instance that is alive: a
// stop. The planner first cancels an open start, and waits for a person if the VM is held or the stop needs an
// approval. Then it opens the transition (plan.go, controls.go).
//
// 4. The transition. The child workflow vm/<namespace>/<name>/<uid>/stop/<n> records the actor and the reason.
// Its deadline is the guest's grace period and three minutes. The activity DeleteVMI reads the VM and the
// VirtualMachineInstance, and deletes exactly that version if the VM asks for it at this moment. Otherwise the planner
// decides again. The child waits (stop.go). The VM shows Stopping.
//
// 5. The pod. The VMI stays, since it has a finalizer. crdwatch signals its deletionTimestamp to
// vmi/<namespace>/<name>, which deletes the launcher pod with the guest's grace period and half a minute more (package
// workflows/vmi: decideEnding). The pod stays as well: its finalizer ensures that its end is observed.
//
// 6. The launcher. The kubelet sends SIGTERM to the launcher, the pod's process. It presses the guest's power button
// (ACPI), and again from time to time until the guest reacts. When the guest's grace period has passed it destroys the
// domain. The table is in launcher/lifecycle. When the guest is off, by itself or not, the launcher writes the reason
// as the pod's termination message and exits. If the pod was deleted while its containers started, the launcher may
// have missed the signal: the VMI's entity then has the node worker end it. After the pod's grace period the kubelet
// kills the remaining processes.
//
// 7. The way back. The kubelet reports that the pod has ended, crdwatch signals it, and the VMI's entity removes the
// pod's finalizer. When the pod is gone, one patch writes the VMI's last phase (Succeeded, or Failed) and removes its
// finalizers. The VMI vanishes, and its workflow completes.
//
// 8. The end. crdwatch signals to the VM's entity that its instance is gone. The entity signals that as progress to the
// child, which completes; the entity records the outcome, and the VM shows Stopped.
//
// A step that fails is repeated after a back-off, and condition Failure of the VM or Synchronized of the VMI shows the
// failure. If the node does not answer, nothing proves that the guest is off: the transition ends at its deadline, the
// VMI shows NodeLost, and no other instance is made until the node is fenced (workflows/vmi/lost.go). If Temporal or
// virtflow's processes fail after step 5, the guest still shuts down, since only the kubelet and the launcher take part
// in that.
package vm
