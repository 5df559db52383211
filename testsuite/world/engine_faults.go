package world

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Faults of the engine. Each strikes right after the first attempt of the one invocation has had its effect.
const (
	TerminateVM   Mode = "vm-terminated" // the entities of that kind are terminated by hand
	TerminateVMI  Mode = "vmi-terminated"
	TerminateSet  Mode = "set-terminated"
	TerminateNode Mode = "node-terminated"
	// TerminateMigration, TerminateQueue, TerminateUpdate and TerminateDrain are about migrations.
	TerminateMigration Mode = "migration-terminated"
	TerminateQueue     Mode = "queue-terminated"
	TerminateUpdate    Mode = "workload-update-terminated"
	TerminateDrain     Mode = "drain-terminated"
	HistoryLost        Mode = "history-lost"      // Temporal's database is empty
	HistoryBack        Mode = "history-back"      // it is put back to its content of a few calls before
	HistoryLate        Mode = "history-back-late" // it is copied then, and put back later
	EtcdBack           Mode = "etcd-back"         // etcd is put back to the last request of a user
	SignalLost         Mode = "signal-lost"       // the next observation is acknowledged and lost
)

// putBackAfter is the age at which a late copy of Temporal's database is put back: later than the time within which
// signals are redelivered after a lost connection.
const putBackAfter = 4 * time.Minute

// callsBefore is how many calls HistoryBack goes back.
const callsBefore = 3

// EngineModes lists the faults of the engine that matter while workflows of these types run.
func EngineModes(kinds []string) []Mode {
	out := []Mode{HistoryLost, HistoryBack, HistoryLate, SignalLost}
	if !slices.Equal(kinds, []string{contract.WorkflowNode}) { // no user has requested anything before
		out = append(out, EtcdBack)
	}
	for kind, m := range map[string]Mode{
		contract.WorkflowVM: TerminateVM, contract.WorkflowVMI: TerminateVMI, contract.WorkflowReplicaSet: TerminateSet,
		contract.WorkflowNode: TerminateNode, contract.WorkflowMigration: TerminateMigration,
		contract.WorkflowAdmission: TerminateQueue, contract.WorkflowWorkloadUpdate: TerminateUpdate,
		contract.WorkflowDrain: TerminateDrain,
	} {
		if slices.Contains(kinds, kind) {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return out
}

// terminatedType returns the type of the workflows that a mode terminates.
func (m Mode) terminatedType() string {
	switch m {
	case TerminateVM:
		return contract.WorkflowVM
	case TerminateVMI:
		return contract.WorkflowVMI
	case TerminateSet:
		return contract.WorkflowReplicaSet
	case TerminateNode:
		return contract.WorkflowNode
	case TerminateMigration:
		return contract.WorkflowMigration
	case TerminateQueue:
		return contract.WorkflowAdmission
	case TerminateUpdate:
		return contract.WorkflowWorkloadUpdate
	case TerminateDrain:
		return contract.WorkflowDrain
	default:
		return ""
	}
}

// isEngineFault reports whether a mode is a fault of the engine rather than of a call.
func (m Mode) isEngineFault() bool {
	return m.terminatedType() != "" || m == HistoryLost || m == HistoryBack || m == HistoryLate || m == EtcdBack ||
		m == SignalLost
}

// hasLostRequests reports whether the engine has forgotten earlier requests to a guest: only the history of the
// instance's entity has them, so the termination of another entity loses none.
func (w *World) hasLostRequests() bool {
	if w.fault == nil || w.faultHit == 0 {
		return false
	}
	switch w.fault.Mode {
	case TerminateVMI, HistoryLost, HistoryBack, HistoryLate:
		return true
	default:
		return false
	}
}

// strike injects the engine's fault, once the effect of its call is there.
func (w *World) strike(activity string, ordinal int) {
	f := w.fault
	if f == nil || !f.Mode.isEngineFault() || f.Activity != activity || f.Ordinal != ordinal || w.healed ||
		w.faultHit > 0 {
		return
	}
	if f.Mode != SignalLost { // a SignalLost strikes with the next signal
		w.faultHit++
	}
	w.tracef("engine: %s", f.Mode)
	w.after(0, func() {
		switch f.Mode {
		case HistoryLost:
			w.putBackHistory(backup{})
		case HistoryBack:
			w.putBackHistory(w.copies[max(len(w.copies)-1-callsBefore, 0)])
		case HistoryLate:
			b := w.workflows.backup()
			w.after(putBackAfter, func() { w.putBackHistory(b) })
		case EtcdBack:
			w.putBackEtcd()
		case SignalLost:
			w.delivery.dropNext = true
		default:
			for _, id := range w.workflows.names() {
				if w.workflows.runs[id].kind == f.Mode.terminatedType() {
					w.Terminate(id)
				}
			}
		}
	})
}

// requested stores a copy of etcd: no older copy is put back in a story than that of the last request.
func (w *World) requested() {
	if w.fault != nil && w.fault.Mode == EtcdBack && w.faultHit == 0 {
		w.etcd = w.Kube.Snapshot()
	}
}

// kubeletsRestart is the time until all clients read a restored etcd.
const kubeletsRestart = 2 * time.Second

// putBackEtcd puts etcd back. The copy is older than the last read of the fencing token.
func (w *World) putBackEtcd() {
	if _, err := w.delivery.offline.Guard(context.Background()); err != nil {
		w.tracef("crdwatch: looking for older copies: %v", err)
	}
	w.Kube.Restore(w.etcd)
	w.delivery.silent = true
	w.tracef("etcd is put back; there are %v", w.Kube.Names())
	w.after(kubeletsRestart, func() {
		for _, name := range []string{"node1", "node2"} {
			h := w.hosts[name]
			if !h.isAlive() {
				w.markUnreachable(h)
				continue
			}
			w.setNodeReady(h, corev1.ConditionTrue)
			w.setWorkerReady(h)
			h.resync()
		}
		w.scheduleAll()
		w.podGC()
	})
}

// putBackHistory puts Temporal's database back to a copy. All of its clients lose their connections.
func (w *World) putBackHistory(b backup) {
	w.PutBackHistory(b)
	w.delivery.loseConnection()
}
