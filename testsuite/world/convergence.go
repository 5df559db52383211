package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// healTime is how much later than without a fault of the engine a story may reach its end, without the time for which
// the engine was away.
const healTime = 2 * time.Minute

// Took returns the time that the story took to reach the wanted end.
func (w *World) Took() time.Duration { return w.took }

// checkHealed checks that the wanted end was reached soon after the engine answered again.
func (w *World) checkHealed() {
	if allowed := w.Clean + w.away + healTime; w.Clean > 0 && w.took > allowed {
		w.breakf("the wanted end was reached after %s, without the fault after %s; Temporal or etcd was away for %s",
			w.took.Round(time.Second), w.Clean.Round(time.Second), w.away)
	}
}

// checkEntities checks that every object has its entity, every entity its object, and none an open transition. A
// transition that the entity has forgotten does no harm and ends at its deadline, which another check covers.
func (w *World) checkEntities() error {
	missing := map[string]bool{}
	for _, m := range kube.List[kubevirt.VirtualMachine](w.Kube, "") {
		missing[contract.VMID(m.Namespace, m.Name)] = true
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, "") {
		missing[contract.VMIID(m.Namespace, m.Name)] = true
		if observe.Outdated(m, w.image) {
			missing[contract.WorkloadUpdateID] = true
		}
	}
	for _, m := range kube.List[kubevirt.VirtualMachineInstanceReplicaSet](w.Kube, "") {
		missing[contract.ReplicaSetID(m.Namespace, m.Name)] = true
	}
	for _, m := range w.Migrations() {
		if !observe.ClosedMigration(m) {
			missing[contract.MigrationID(m.Namespace, m.Name)] = true
		}
	}
	for _, m := range kube.List[corev1.Node](w.Kube, "") {
		missing[contract.NodeID(m.Name)] = true
	}
	for _, id := range w.workflows.names() {
		r := w.workflows.runs[id]
		if isTransition(r.kind) {
			if w.openTransition(r.parent) == id {
				return fmt.Errorf("transition %s is open, and nothing is left to do", id)
			}
			continue
		}
		if r.kind == contract.WorkflowAdmission {
			continue
		}
		if !missing[id] {
			return fmt.Errorf("workflow %s runs without an object", id)
		}
		delete(missing, id)
	}
	for id := range missing {
		return fmt.Errorf("no workflow %s runs", id)
	}
	return nil
}

// openTransition returns the ID of the transition that an entity's state calls open; "": none.
func (w *World) openTransition(entity string) string {
	var state struct {
		Open struct {
			ID string `json:"id"`
		} `json:"open"`
	}
	if v, err := w.env.QueryWorkflowByID(entity, contract.QueryState); err != nil || v.Get(&state) != nil {
		return ""
	}
	return state.Open.ID
}
