package world

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// What happens to the engine, right after the first attempt of the one invocation has had its effect.
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
	HistoryBack        Mode = "history-back"      // it is put back to what it was a few calls before
	HistoryLate        Mode = "history-back-late" // it is copied then, and put back a while later
	EtcdBack           Mode = "etcd-back"         // etcd is put back to when somebody last asked for something
	SignalLost         Mode = "signal-lost"       // the next observation is acknowledged and lost
)

// awhile is how long after its copy Temporal's database is put back: nothing of then is sent again for a loss of the
// connection.
const awhile = 4 * time.Minute

// few is how many calls before HistoryBack goes back to.
const few = 3

// EngineModes lists what can happen to the engine when workflows of these types run.
func EngineModes(kinds []string) []Mode {
	out := []Mode{HistoryLost, HistoryBack, HistoryLate, SignalLost}
	if !slices.Equal(kinds, []string{contract.WorkflowNode}) { // nobody has asked for anything before
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

// terminated is the type of the workflows that a mode terminates.
func (m Mode) terminated() string {
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

// ofEngine says that a mode is about the engine, and not about a call.
func (m Mode) ofEngine() bool {
	return m.terminated() != "" || m == HistoryLost || m == HistoryBack || m == HistoryLate || m == EtcdBack ||
		m == SignalLost
}

// forgetful says that the engine has forgotten the requests to a guest that were made before: only the history of the
// instance's entity knows them. That of another entity takes none along when it is terminated.
func (w *World) forgetful() bool {
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

// strike lets happen to the engine what is to, once the effect of a call is there.
func (w *World) strike(activity string, ordinal int) {
	f := w.fault
	if f == nil || !f.Mode.ofEngine() || f.Activity != activity || f.Ordinal != ordinal || w.healed || w.faultHit > 0 {
		return
	}
	if f.Mode != SignalLost { // that strikes when there is a signal
		w.faultHit++
	}
	w.tracef("engine: %s", f.Mode)
	w.after(0, func() {
		switch f.Mode {
		case HistoryLost:
			w.putBackHistory(backup{})
		case HistoryBack:
			w.putBackHistory(w.copies[max(len(w.copies)-1-few, 0)])
		case HistoryLate:
			b := w.workflows.backup()
			w.after(awhile, func() { w.putBackHistory(b) })
		case EtcdBack:
			w.putBackEtcd()
		case SignalLost:
			w.delivery.losing = true
		default:
			for _, id := range w.workflows.names() {
				if w.workflows.runs[id].kind == f.Mode.terminated() {
					w.Terminate(id)
				}
			}
		}
	})
}

// requested notes that somebody asks for something: no copy of etcd that a story has to do with is older.
func (w *World) requested() {
	if w.fault != nil && w.fault.Mode == EtcdBack && w.faultHit == 0 {
		w.etcd = w.Kube.Snapshot()
	}
}

// kubeletsRestart is how long it takes until everybody looks at an etcd again that was put back.
const kubeletsRestart = 2 * time.Second

// putBackEtcd puts etcd back. The copy is older than the last look at the fencing token.
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
			if !h.alive() {
				w.notice(h)
				continue
			}
			w.nodeLooks(h, corev1.ConditionTrue)
			w.setWorkerReady(h)
			h.resync()
		}
		w.scheduleAll()
		w.podGC()
	})
}

// putBackHistory puts Temporal's database back to a copy. Whoever was connected to it notices.
func (w *World) putBackHistory(b backup) {
	w.PutBackHistory(b)
	w.delivery.lose()
}
