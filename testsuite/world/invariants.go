package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// deadlineSlack is how long a transition may stay open past its deadline: for a call that is under way at that time,
// and one call to compensate.
const deadlineSlack = 4 * time.Minute

// breakf records an invariant that does not hold.
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

// maxLaunchers is how many launcher pods an instance's name may get within an hour: those of starts after ends, and
// those of a drain's migrations (docs/lifecycle.md, "Bounded launcher pods"). Stories request few beside them.
const maxLaunchers = 42 + 16

// launcherCreated is called when a launcher pod is created.
func (w *World) launcherCreated(pod *corev1.Pod) {
	owner := observe.Owner(pod)
	if owner == nil {
		return
	}
	key, now := pod.Namespace+"/"+owner.Name, w.Now()
	w.created[key] = slices.DeleteFunc(append(w.created[key], now),
		func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if n := len(w.created[key]); n > maxLaunchers {
		w.breakf("%s has got %d launcher pods within an hour", key, n)
	}
}

// domainStarted is called when QEMU runs a guest that boots.
func (w *World) domainStarted(l *launcher) {
	w.Started[l.key()]++
	w.registerDomain(l)
}

// domainMoved is called when a migrated guest resumes at its target.
func (w *World) domainMoved(l *launcher) {
	w.Moved[l.key()]++
	w.registerDomain(l)
}

// registerDomain records that a launcher runs a guest. Until domainEnded no other launcher may run a guest of the same
// name. The source of a migration counts until its QEMU is dead, also while the guest is paused for the switch-over.
func (w *World) registerDomain(l *launcher) {
	for _, other := range w.domains {
		if other.key() == l.key() {
			w.breakf("two running domains of %s: in pod %s on %s and in pod %s on %s", l.key(), other.podUID,
				other.host.name, l.podUID, l.host.name)
		}
	}
	if node, ok := w.possiblyRunning[l.key()]; ok && node != l.host.name {
		if w.isFenced(node) {
			delete(w.possiblyRunning, l.key())
		} else {
			w.breakf("%s continues on %s while its guest may still run on %s, which is unreachable and not "+
				"fenced", l.key(), l.host.name, node)
		}
	}
	w.domains = append(w.domains, l)
}

func (w *World) domainEnded(l *launcher) {
	w.domains = slices.DeleteFunc(w.domains, func(x *launcher) bool { return x == l })
}

// Domains returns the number of running domains of a VM or VMI.
func (w *World) Domains(key string) int {
	n := 0
	for _, l := range w.domains {
		if l.key() == key {
			n++
		}
	}
	return n
}

// sample checks the invariants that no single change breaks.
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

// expectClean checks that nothing of a namespace's machines is left.
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
			if !strings.Contains(rest, "/"+claims.StatePrefix) || w.orphans[name] { // of a user
				continue
			}
		case "pods":
			if strings.HasPrefix(rest, systemNamespace+"/") {
				continue
			}
		default:
			continue
		}
		w.breakf("left behind: %s%s", name, w.describe(resource, rest))
	}
	for _, l := range w.domains {
		w.breakf("left behind: a running domain of %s on %s", l.key(), l.host.name)
	}
	for _, id := range w.workflows.names() {
		if !isClusterWide(w.workflows.runs[id].kind) {
			w.breakf("left behind: workflow %s, which waits for %s", id, w.waitText(id))
		}
	}
}

// describe returns the state of an object, with what prevents its deletion.
func (w *World) describe(resource, key string) string {
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

// waitText returns what an entity waits for, by its own query.
func (w *World) waitText(id string) string {
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
