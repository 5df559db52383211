package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/offline"
)

// How long it takes from a change to crdwatch's informer, and from there to the workflow.
const (
	watchLag  = 9 * time.Millisecond
	signalLag = 6 * time.Millisecond
)

// kindDomain marks what a node's worker tells: it tries until Temporal has it.
const kindDomain = "domain"

// repairEvery is crdwatch's own interval.
const repairEvery = 5 * time.Minute

// Chaos is what happens to observations on their way. Probabilities are between 0 and 1; the zero value does nothing.
type Chaos struct {
	Seed      uint64
	Duplicate float64 // sent twice, the second time up to LateBy later
	Delay     float64 // sent up to LateBy later, and so out of order
	Drop      float64 // never sent; the next resync, which is every five minutes then, tells it
	LateBy    time.Duration
}

// delivery carries what happens in Kubernetes to the workflows, the way crdwatch does.
type delivery struct {
	world   *World
	offline *offline.Watcher
	chaos   Chaos
	random  *rand.Rand
	// down says that no crdwatch leads: nothing is told until one does.
	down bool
	// certain says that what is sent now is not dropped.
	certain bool

	Sent, Duplicated, Delayed, Dropped int
}

func newDelivery(w *World, chaos Chaos) (*delivery, error) {
	watcher, err := offline.New(crdwatch.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, Temporal: temporalClient{world: w}, Namespace: systemNamespace, Log: w.log,
	})
	if err != nil {
		return nil, fmt.Errorf("making crdwatch: %w", err)
	}
	return &delivery{world: w, offline: watcher, chaos: chaos, random: rand.New(rand.NewPCG(chaos.Seed, 1))}, nil
}

// changed is called for every change in Kubernetes.
func (d *delivery) changed(c kube.Change) {
	o, ok := c.New.(metav1.Object)
	if !ok {
		return
	}
	d.world.after(watchLag, func() {
		if c.Type == kube.Deleted {
			d.offline.Remove(o)
		} else {
			d.offline.Set(o)
		}
		d.flush()
	})
}

// flush sends what crdwatch wants sent.
func (d *delivery) flush() {
	if d.down {
		return
	}
	for _, x := range d.offline.Take() {
		d.dispatch(x)
	}
}

// dispatch sends one observation, as chaos will have it.
func (d *delivery) dispatch(x *crdwatch.Delivery) {
	late := func() time.Duration { return time.Duration(d.random.Int64N(int64(max(d.chaos.LateBy, 1)))) }
	wait := signalLag
	switch {
	case d.chaos.Drop > 0 && !d.certain && x.Kind != kindDomain && d.random.Float64() < d.chaos.Drop:
		d.Dropped++
		d.world.tracef("chaos: %s of %s to %s is lost", x.Signal, x.UID, x.Workflow)
		return
	case d.chaos.Delay > 0 && d.random.Float64() < d.chaos.Delay:
		d.Delayed++
		wait += late()
	}
	if d.chaos.Duplicate > 0 && d.random.Float64() < d.chaos.Duplicate {
		d.Duplicated++
		d.world.after(wait+late(), func() { d.world.send(x) })
	}
	d.world.after(wait, func() { d.world.send(x) })
}

// resync is a new leader: everything is signalled, and what vanished unseen is looked for.
func (d *delivery) resync() {
	d.down, d.certain = false, true
	if err := d.offline.Lead(context.Background()); err != nil {
		d.world.breakf("crdwatch: sending everything: %v", err)
	}
	d.repair(true)
	d.certain = false
}

func (d *delivery) repair(first bool) {
	if d.down {
		return
	}
	if err := d.offline.Resync(context.Background(), first); err != nil {
		d.world.tracef("crdwatch: resync: %v", err)
	}
	d.flush()
}

// send signals a workflow. A signal that comes between two runs of a chain, or is lost with the run that it reached too late, is sent
// again: Temporal loses none.
func (w *World) send(x *crdwatch.Delivery) {
	key := x.Workflow + " " + x.Signal
	before := w.workflows.taken[key]
	starts := w.workflows.closed(x.Workflow)
	if !w.workflows.deliver(x) {
		w.after(3*time.Millisecond, func() { w.send(x) })
		return
	}
	if starts {
		return
	}
	w.delivery.Sent++
	w.tracef("signal %s -> %s %s", x.Signal, x.Workflow, short(fmt.Sprintf("%+v", x.Payload)))
	w.after(time.Millisecond, func() {
		if w.workflows.taken[key] == before {
			w.send(x)
		}
	})
}
