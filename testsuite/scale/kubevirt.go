package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"
)

// kubeVirtNamespace is where KubeVirt's own pods run.
const kubeVirtNamespace = "kubevirt"

// kubeVirt is KubeVirt's own control plane. It is measured, without checked properties.
type kubeVirt struct {
	*run
	config *rest.Config
	guests *guests
}

// newKubeVirt fails if KubeVirt is not deployed.
func newKubeVirt(ctx context.Context, r *run, config *rest.Config) (kubeVirt, error) {
	_, err := r.kubernetes.CoreV1().Namespaces().Get(ctx, kubeVirtNamespace, metav1.GetOptions{})
	if err != nil {
		return kubeVirt{}, fmt.Errorf("--kubevirt: make kubevirt deploys it, where virtflow is not: %w", err)
	}
	return kubeVirt{run: r, config: config, guests: newGuests()}, nil
}

func (kubeVirt) programs() []string {
	return append(slices.Clone(sharedPrograms), "virt-api", "virt-controller")
}

// isOwn reports whether a request is KubeVirt's, including those in the name of virt-handler.
func (kubeVirt) isOwn(userAgent string) bool { return strings.HasPrefix(userAgent, "virt-") }

func (k kubeVirt) serve(ctx, life context.Context, node string) error {
	h, err := newHandler(life, k.config, node, k.guests)
	if err == nil {
		err = h.run(ctx, life)
	}
	if err != nil {
		return fmt.Errorf("starting the virt-handler of node %s: %w", node, err)
	}
	return nil
}

// hasEnded reports whether virt-handler has seen the guest of a pod end: the launcher waits for that. If not, it calls
// again later.
func (k kubeVirt) hasEnded(pod *corev1.Pod, again func()) bool {
	return k.guests.hasEnded(types.UID(pod.Labels[kubevirt.CreatedByLabel]), again)
}

func (kubeVirt) histories(context.Context, *stage, time.Time) (*sampled, error) { return nil, nil }

func (kubeVirt) watch(_, _ context.Context) (func(), error) { return func() {}, nil }

func (kubeVirt) started(context.Context, *stage, atRest, step, step) error { return nil }

func (kubeVirt) done(context.Context, *stage, comparison) error { return nil }

// guests are the running guests on the simulated nodes, by their VMIs.
type guests struct {
	mu   sync.Mutex
	runs map[types.UID]*guest
}

// guest is a running guest.
type guest struct {
	stopping bool
	waiting  []func() // for its end
}

func newGuests() *guests { return &guests{runs: map[types.UID]*guest{}} }

// start records that a guest runs.
func (g *guests) start(vmi types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[vmi] = &guest{}
}

func (g *guests) isRunning(vmi types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[vmi] != nil
}

// stop reports whether a guest runs that was not asked to stop before.
func (g *guests) stop(vmi types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.runs[vmi]
	if one == nil || one.stopping {
		return false
	}
	one.stopping = true
	return true
}

// end records that a guest has ended, and calls those who wait for it.
func (g *guests) end(vmi types.UID) {
	g.mu.Lock()
	one := g.runs[vmi]
	delete(g.runs, vmi)
	g.mu.Unlock()
	if one != nil {
		for _, again := range one.waiting {
			again()
		}
	}
}

// hasEnded reports whether a guest does not run. While it does, again is called once it has ended.
func (g *guests) hasEnded(vmi types.UID, again func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.runs[vmi]
	if one != nil {
		one.waiting = append(one.waiting, again)
	}
	return one == nil
}
