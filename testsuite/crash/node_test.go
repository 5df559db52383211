//go:build crash

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	crdkube "github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workers/node/forward"
)

// Nodes: guests run on the first, unless they migrate.
const nodeName, otherNode = "node1", "node2"

// Durations on the node.
const (
	lag      = 10 * time.Millisecond
	stopTime = 30 * time.Millisecond
)

// machine simulates scheduler, kubelets, node workers and launchers. Everything runs on one goroutine.
type machine struct {
	kube     *kube.Server
	temporal client.Client
	work     chan func()

	launchers map[string]*launcher // by pod UID
	moves     map[string]*move     // by the UID of the migration
	// What the tests read, guarded by mu.
	mu      sync.Mutex
	running map[string]string // pod UID of the domain that runs, by namespace/name of the VMI
	made    map[string]*counts
	broken  []string
	plans   map[string]string
	full    map[string]bool // namespaces whose pods are unschedulable

	created func(resource, namespace, name string)
}

// counts counts what was created for one VMI or VM name.
type counts struct{ instances, pods, domains int }

// launcher is one launcher pod's process.
type launcher struct {
	namespace, vmi, podUID, podName string
	domain                          contract.DomainObservation
	ran, ended                      bool
	reason                          string
}

// planRefuse is a plan for the first guest of a namespace/name, which consumes it.
const planRefuse = "refuse" // libvirt refuses the first domain

func newMachine(s *kube.Server, c client.Client) *machine {
	m := &machine{
		kube: s, temporal: c, work: make(chan func(), 10000), launchers: map[string]*launcher{},
		moves: map[string]*move{}, running: map[string]string{},
		made: map[string]*counts{}, plans: map[string]string{}, full: map[string]bool{},
	}
	s.OnChange(func(c kube.Change) {
		if o, ok := c.New.(*corev1.Pod); ok {
			m.after(lag, func() { m.sync(o.Namespace, o.Name, string(o.UID)) })
		}
		if c.Type == kube.Added {
			m.count(c)
		}
	})
	return m
}

func (m *machine) after(d time.Duration, f func()) { time.AfterFunc(d, func() { m.work <- f }) }

func (m *machine) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-m.work:
			f()
		}
	}
}

func (m *machine) count(c kube.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o := c.New.(type) {
	case *corev1.Pod:
		if ref := observe.Owner(o); ref != nil {
			m.counts(c.Namespace, ref.Name).pods++
		}
	default:
		if c.Resource == crdkube.ResourceVMI {
			m.counts(c.Namespace, c.Name).instances++
		}
		if strings.HasPrefix(c.Resource, "virtualmachine") && m.created != nil {
			go m.created(c.Resource, c.Namespace, c.Name)
		}
	}
}

// counts must be called with the lock held.
func (m *machine) counts(namespace, name string) *counts {
	key := namespace + "/" + name
	if m.made[key] == nil {
		m.made[key] = &counts{}
	}
	return m.made[key]
}

func (m *machine) breakf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = append(m.broken, fmt.Sprintf(format, args...))
}

// sync does the scheduler's and the kubelet's work for one pod.
func (m *machine) sync(namespace, name, uid string) {
	pod := kube.Get[corev1.Pod](m.kube, namespace, name)
	l := m.launchers[uid]
	switch {
	case pod == nil || string(pod.UID) != uid:
		if l != nil && !l.ended {
			m.breakf("pod %s/%s was deleted while its launcher was running", namespace, name)
			m.off(l, contract.DomainShutoff, contract.ReasonDestroyed)
		}
		delete(m.launchers, uid)
	case pod.DeletionTimestamp != nil && (l == nil || l.ended):
		m.confirmEnd(pod, l)
	case pod.DeletionTimestamp != nil:
		m.after(stopTime, func() { m.off(l, contract.DomainShutoff, contract.ReasonShutdown) })
	case l != nil && l.ended:
		m.report(pod, l)
	case pod.Spec.NodeName == "" && m.isFull(namespace): // bound once the namespace is not full any more
	case pod.Spec.NodeName == "":
		_ = kube.Bind(m.kube, namespace, name, m.nodeFor(pod))
	case l == nil:
		ref := observe.Owner(pod)
		if ref == nil {
			return
		}
		m.launchers[uid] = &launcher{namespace: namespace, vmi: ref.Name, podUID: uid, podName: name}
		m.edit(pod, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "10.0.0.9",
				[]corev1.PodIP{{IP: "10.0.0.9"}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: observe.ComputeContainer, Ready: true,
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		})
	default:
		m.ready(pod)
	}
}

// nodeFor returns a node for a pod on which its instance has no other.
func (m *machine) nodeFor(pod *corev1.Pod) string {
	for _, other := range kube.List[corev1.Pod](m.kube, pod.Namespace) {
		if other.Labels[contract.LabelCreatedBy] == pod.Labels[contract.LabelCreatedBy] &&
			other.Spec.NodeName == nodeName {
			return otherNode
		}
	}
	return nodeName
}

// setFull makes the pods of a namespace unschedulable, or schedulable again.
func (m *machine) setFull(namespace string, full bool) {
	m.mu.Lock()
	m.full[namespace] = full
	m.mu.Unlock()
	if full {
		return
	}
	for _, pod := range kube.List[corev1.Pod](m.kube, namespace) {
		m.after(0, func() { m.sync(pod.Namespace, pod.Name, string(pod.UID)) })
	}
}

func (m *machine) isFull(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full[namespace]
}

func (m *machine) edit(pod *corev1.Pod, change func(*corev1.Pod)) {
	_, err := kube.Edit(m.kube, pod.Namespace, pod.Name, "status", func(p *corev1.Pod) {
		if p.UID == pod.UID {
			change(p)
		}
	})
	if err != nil { // another writer was faster: its change leads back here
		m.after(lag, func() { m.sync(pod.Namespace, pod.Name, string(pod.UID)) })
	}
}

// ready writes the condition Ready as the readiness gate asks for.
func (m *machine) ready(pod *corev1.Pod) {
	is := func(kind corev1.PodConditionType) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionTrue
		})
	}
	if is(contract.ConditionUnpaused) && !is(corev1.PodReady) {
		m.edit(pod, func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue,
					LastTransitionTime: metav1.Now()})
		})
	}
}

// report writes the end of a launcher into its pod.
func (m *machine) report(pod *corev1.Pod, l *launcher) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	m.edit(pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		exit := &corev1.ContainerStateTerminated{}
		switch l.reason {
		case contract.ReasonShutdown, contract.ReasonMigrated, contract.ReasonNotReceived:
		default:
			p.Status.Phase, exit.ExitCode = corev1.PodFailed, 1
		}
		message, err := json.Marshal(contract.TerminationMessage{Reason: l.reason, Ran: l.ran})
		if err == nil {
			exit.Message = string(message)
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: observe.ComputeContainer, State: corev1.ContainerState{Terminated: exit}}}
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady
		})
	})
}

// confirmEnd confirms the end of a deleted pod.
func (m *machine) confirmEnd(pod *corev1.Pod, l *launcher) {
	if l == nil {
		l = &launcher{reason: contract.ReasonShutdown}
	}
	m.report(pod, l)
	if g := pod.DeletionGracePeriodSeconds; g != nil && *g > 0 {
		zero := int64(0)
		m.after(lag, func() { _ = kube.Remove[corev1.Pod](m.kube, pod.Namespace, pod.Name, &zero) })
	}
}

// StartDomain is the node worker's part: it calls the launcher.
func (m *machine) StartDomain(ctx context.Context, in contract.StartDomainInput) (contract.DomainObservation, error) {
	type answer struct {
		domain contract.DomainObservation
		err    error
	}
	out := make(chan answer, 1)
	m.work <- func() {
		d, err := m.boot(in.VMI, in.Pod)
		out <- answer{d, err}
	}
	select {
	case a := <-out:
		return a.domain, a.err
	case <-ctx.Done():
		return contract.DomainObservation{}, ctx.Err()
	}
}

func (m *machine) boot(vmi, pod contract.Object) (contract.DomainObservation, error) {
	l := m.launchers[pod.UID]
	if l == nil || l.ended {
		return contract.DomainObservation{}, errors.New("no launcher answers")
	}
	if l.ran {
		return l.domain, nil
	}
	key := vmi.Namespace + "/" + vmi.Name
	m.mu.Lock()
	plan := m.plans[key]
	delete(m.plans, key)
	other := m.running[key]
	m.mu.Unlock()
	if plan == planRefuse {
		m.after(lag, func() { m.off(l, contract.DomainShutoff, contract.ReasonFailed) })
		return contract.DomainObservation{}, &node.RefusedError{Message: "the domain is refused"}
	}
	if other != "" {
		m.breakf("two domains of %s: in pods %s and %s", key, other, pod.UID)
	}
	m.mu.Lock()
	m.running[key] = pod.UID
	m.counts(vmi.Namespace, vmi.Name).domains++
	m.mu.Unlock()
	l.ran = true
	l.domain = contract.DomainObservation{PodUID: pod.UID, Sequence: 1, State: contract.DomainRunning,
		MachineType: "pc-q35-7.2"}
	return l.domain, nil
}

// off ends a guest and its launcher.
func (m *machine) off(l *launcher, state contract.DomainState, reason string) {
	if l.ended {
		return
	}
	l.ended, l.reason = true, reason
	if !l.ran && reason == contract.ReasonShutdown {
		l.reason = contract.ReasonNeverRan
	}
	key := l.namespace + "/" + l.vmi
	m.mu.Lock()
	if m.running[key] == l.podUID {
		delete(m.running, key)
	}
	m.mu.Unlock()
	if l.ran {
		l.domain.Sequence++
		l.domain.State, l.domain.Reason = state, reason
		m.reportDomain(l)
	}
	m.sync(l.namespace, l.podName, l.podUID)
}

// reportDomain reports a domain as the node worker does. If the report is lost, the pod has the outcome, too.
func (m *machine) reportDomain(l *launcher) {
	domain, id := l.domain, contract.VMIID(l.namespace, l.vmi)
	time.AfterFunc(forward.Debounce(domain), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = m.temporal.SignalWorkflow(ctx, id, "", contract.SignalObserveDomain, domain)
	})
}

// total returns what was created in a namespace.
func (m *machine) total(namespace string) counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out counts
	for key, t := range m.made {
		if strings.HasPrefix(key, namespace+"/") {
			out.instances, out.pods, out.domains = out.instances+t.instances, out.pods+t.pods, out.domains+t.domains
		}
	}
	return out
}

// domains returns how many run in a namespace.
func (m *machine) domains(namespace string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key := range m.running {
		if strings.HasPrefix(key, namespace+"/") {
			n++
		}
	}
	return n
}

// onObject calls f for each object of kubevirt.io that is created from now on.
func (m *machine) onObject(f func(resource, namespace, name string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created = f
}
