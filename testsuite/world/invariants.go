package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// deadlineSlack is what a transition may take beyond its deadline: a call that is under way when it passes, and one to
// compensate.
const deadlineSlack = 4 * time.Minute

// breakf notes an invariant that does not hold.
func (w *World) breakf(format string, args ...any) {
	if w.ending {
		return
	}
	text := fmt.Sprintf(format, args...)
	w.tracef("BROKEN: %s", text)
	if len(w.Broken) < 20 && !slices.Contains(w.Broken, text) {
		w.Broken = append(w.Broken, text)
	}
}

// domainStarted is called when QEMU runs a guest that boots.
func (w *World) domainStarted(l *launcher) {
	w.Started[l.key()]++
	w.domainRuns(l)
}

// domainGoesOn is called when a guest that was moved goes on at its target.
func (w *World) domainGoesOn(l *launcher) {
	w.Moved[l.key()]++
	w.domainRuns(l)
}

// domainRuns says that a guest is a launcher's: from now on until domainEnded there must be no other of the same name.
// A source is one until its QEMU is dead, also while the guest stands still.
func (w *World) domainRuns(l *launcher) {
	for _, other := range w.domains {
		if other.key() == l.key() {
			w.breakf("two running domains of %s: in pod %s on %s and in pod %s on %s", l.key(), other.podUID,
				other.host.name, l.podUID, l.host.name)
		}
	}
	if node, ok := w.ghosts[l.key()]; ok && node != l.host.name {
		if w.fenced(node) {
			delete(w.ghosts, l.key())
		} else {
			w.breakf("%s goes on on %s while its guest may still run on %s, which nobody reaches and nobody has "+
				"fenced", l.key(), l.host.name, node)
		}
	}
	w.domains = append(w.domains, l)
}

func (w *World) domainEnded(l *launcher) {
	w.domains = slices.DeleteFunc(w.domains, func(x *launcher) bool { return x == l })
}

// Domains are the running domains of a VM or VMI.
func (w *World) Domains(key string) int {
	n := 0
	for _, l := range w.domains {
		if l.key() == key {
			n++
		}
	}
	return n
}

// sample checks what must hold all the time and is not seen at the moment it breaks.
func (w *World) sample() {
	w.sampleGuests()
	for _, id := range w.workflows.names() {
		r := w.workflows.runs[id]
		if r.deadline.IsZero() || !w.Now().After(r.deadline.Add(deadlineSlack)) {
			continue
		}
		w.breakf("transition %s is open %s past its deadline", id, w.Now().Sub(r.deadline).Round(time.Second))
	}
}

// expectClean checks that nothing is left of a namespace's machines.
func (w *World) expectClean() {
	for _, name := range w.Kube.Names() {
		resource, rest, _ := strings.Cut(name, "/")
		switch resource {
		case "virtualmachines", "virtualmachineinstances", "virtualmachineinstancereplicasets",
			"virtualmachineinstancemigrations":
		case "controllerrevisions", "secrets", "datavolumes":
			if w.orphans[name] {
				continue
			}
		case "persistentvolumeclaims":
			if !strings.Contains(rest, "/"+claims.StatePrefix) || w.orphans[name] { // a user's
				continue
			}
		case "pods":
			if strings.HasPrefix(rest, systemNamespace+"/") {
				continue
			}
		default:
			continue
		}
		w.breakf("left behind: %s%s", name, w.why(resource, rest))
	}
	for _, l := range w.domains {
		w.breakf("left behind: a running domain of %s on %s", l.key(), l.host.name)
	}
	for _, id := range w.workflows.names() {
		if !ofCluster(w.workflows.runs[id].kind) {
			w.breakf("left behind: workflow %s, which waits for %s", id, w.waiting(id))
		}
	}
}

// why says what keeps an object.
func (w *World) why(resource, key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	switch resource {
	case "pods":
		if p := kube.Get[corev1.Pod](w.Kube, namespace, name); p != nil {
			return fmt.Sprintf(" (phase %s, deleted %v, finalizers %v)", p.Status.Phase, p.DeletionTimestamp,
				p.Finalizers)
		}
	case "virtualmachines":
		if p := kube.Get[kubevirt.VirtualMachine](w.Kube, namespace, name); p != nil {
			return fmt.Sprintf(" (%s, deleted %v, finalizers %v)", p.Status.PrintableStatus, p.DeletionTimestamp,
				p.Finalizers)
		}
	case "virtualmachineinstancemigrations":
		if p := kube.Get[kubevirt.VirtualMachineInstanceMigration](w.Kube, namespace, name); p != nil {
			return fmt.Sprintf(" (%s, deleted %v, finalizers %v)", p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
		}
	case "virtualmachineinstances":
		if p := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, namespace, name); p != nil {
			return fmt.Sprintf(" (%s, deleted %v, finalizers %v)", p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
		}
	}
	return ""
}

// waiting is what an entity says it waits for.
func (w *World) waiting(id string) string {
	var plan struct {
		Waiting string    `json:"waiting"`
		Trouble string    `json:"trouble"`
		WakeAt  time.Time `json:"wakeAt"`
	}
	v, err := w.env.QueryWorkflowByID(id, contract.QueryPlan)
	if err != nil || v.Get(&plan) != nil {
		return "something that it does not say"
	}
	said := fmt.Sprintf("%q", plan.Waiting)
	if !plan.WakeAt.IsZero() {
		said += fmt.Sprintf(" until %s", plan.WakeAt)
	}
	if plan.Trouble != "" {
		said += fmt.Sprintf(", after %q", plan.Trouble)
	}
	return said
}
