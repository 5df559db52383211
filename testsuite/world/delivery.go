package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/offline"
	"github.com/virtflow/virtflow/workflows/contract"
)

// How long it takes from a change to crdwatch's informer, and from there to the workflow.
const (
	watchLag  = 9 * time.Millisecond
	signalLag = 6 * time.Millisecond
)

// kindDomain marks what a node's worker tells: it tries until Temporal has it.
const kindDomain = "domain"

// outage is how long Temporal is away that has lost its last commits.
const outage = 5 * time.Second

// Chaos is what happens to observations on their way. Probabilities are between 0 and 1; the zero value does nothing.
type Chaos struct {
	Seed      uint64
	Duplicate float64 // sent twice, the second time up to LateBy later
	Delay     float64 // sent up to LateBy later, and so out of order
	Drop      float64 // acknowledged and lost: Temporal then ends, and answers again after an outage
	LateBy    time.Duration
}

// delivery carries what happens in Kubernetes to the workflows, the way crdwatch does.
type delivery struct {
	world   *World
	offline *offline.Watcher
	chaos   Chaos
	random  *rand.Rand
	// term counts the leaderships; down says that no crdwatch leads: nothing is sent until one does.
	term int
	down bool
	// silent says that the watches wait for versions that etcd has not reached again since it was put back.
	silent bool
	// lost is when the connection to Temporal was lost that is away; zero: it is not.
	lost time.Time
	// losing says that the next observation is acknowledged and lost.
	losing bool
	// inFlight counts the observations that are on their way to a workflow.
	inFlight int

	Happened
}

// Happened counts what became of the observations.
type Happened struct{ Sent, Duplicated, Delayed, Dropped int }

// Plus is both together.
func (h Happened) Plus(o Happened) Happened {
	return Happened{Sent: h.Sent + o.Sent, Duplicated: h.Duplicated + o.Duplicated, Delayed: h.Delayed + o.Delayed,
		Dropped: h.Dropped + o.Dropped}
}

// Happened is what became of the observations so far.
func (w *World) Happened() Happened { return w.delivery.Happened }

func newDelivery(w *World, chaos Chaos) (*delivery, error) {
	watcher, err := newWatcher(w)
	if err != nil {
		return nil, err
	}
	return &delivery{world: w, offline: watcher, chaos: chaos, random: rand.New(rand.NewPCG(chaos.Seed, 1)),
		down: true}, nil
}

// newWatcher is a crdwatch that has just started.
func newWatcher(w *World) (*offline.Watcher, error) {
	watcher, err := offline.New(crdwatch.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, Temporal: temporalClient{world: w}, Namespace: systemNamespace,
		LauncherImage: w.image, Log: w.log,
	})
	if err != nil {
		return nil, fmt.Errorf("making crdwatch: %w", err)
	}
	return watcher, nil
}

// replaced is another crdwatch, which begins to lead.
func (d *delivery) replaced() error {
	watcher, err := newWatcher(d.world)
	if err != nil {
		return err
	}
	d.offline = watcher
	d.reread()
	return nil
}

// changed is called for every change in Kubernetes.
func (d *delivery) changed(c kube.Change) {
	o, ok := c.New.(metav1.Object)
	if !ok {
		return
	}
	d.world.after(watchLag, func() {
		switch {
		case d.silent:
			return
		case c.Type == kube.Deleted:
			d.offline.Remove(o)
		default:
			d.offline.Set(o)
		}
		d.flush()
	})
}

// flush sends what crdwatch wants sent.
func (d *delivery) flush() {
	if d.down || !d.lost.IsZero() {
		return
	}
	now, wait := d.offline.Take(d.world.Now())
	for _, x := range now {
		d.dispatch(x)
	}
	if wait > 0 {
		d.world.after(wait, d.flush)
	}
}

// dispatch sends one observation, as chaos will have it.
func (d *delivery) dispatch(x *crdwatch.Delivery) {
	if d.world.missing[PartTemporal] || d.world.missing[PartControl] { // it is sent, or heard, once both are back
		d.world.after(time.Second, func() { d.dispatch(x) })
		return
	}
	late := func() time.Duration { return time.Duration(d.random.Int64N(int64(max(d.chaos.LateBy, 1)))) }
	wait := signalLag
	switch {
	case x.Kind != kindDomain && (d.losing || d.chaos.Drop > 0 && d.random.Float64() < d.chaos.Drop):
		if d.losing {
			d.losing = false
			d.world.faultHit++
		}
		d.Dropped++
		d.world.tracef("Temporal takes %s of %s to %s, and loses it", x.Signal, x.UID, x.Workflow)
		d.lose()
		return
	case d.chaos.Delay > 0 && d.random.Float64() < d.chaos.Delay:
		d.Delayed++
		wait += late()
	}
	if d.chaos.Duplicate > 0 && d.random.Float64() < d.chaos.Duplicate {
		d.Duplicated++
		d.sendIn(wait+late(), x)
	}
	d.sendIn(wait, x)
}

// sendIn sends x after a wait, during which it is in flight.
func (d *delivery) sendIn(wait time.Duration, x *crdwatch.Delivery) {
	d.inFlight++
	d.world.after(wait, func() {
		d.inFlight--
		d.world.send(x)
	})
}

// delivered says that Temporal answers and that nothing is in flight.
func (d *delivery) delivered() bool { return d.lost.IsZero() && d.inFlight == 0 }

// between says whether chaos repeats what two workflows say to each other of a migration, and after which time.
func (d *delivery) between(signal string) (wait time.Duration, again bool) {
	switch signal {
	case contract.SignalClaim, contract.SignalObserveClaim, contract.SignalRequestAdmission,
		contract.SignalObserveAdmission:
	default:
		return 0, false
	}
	if d.chaos.Duplicate == 0 || d.random.Float64() >= d.chaos.Duplicate {
		return 0, false
	}
	d.Duplicated++
	return time.Duration(d.random.Int64N(int64(max(d.chaos.LateBy, 1)))), true
}

// lose is Temporal going away within a second, for an outage. Then crdwatch and node workers send what it took shortly
// before once more.
func (d *delivery) lose() {
	if !d.lost.IsZero() {
		return
	}
	d.world.after(time.Second, func() {
		if !d.lost.IsZero() {
			return
		}
		lost := d.world.Now()
		d.lost = lost
		d.world.away += time.Second + outage
		d.world.after(outage, func() {
			d.world.tracef("Temporal answers again")
			d.lost = time.Time{}
			if !d.down {
				d.offline.Restored(lost)
			}
			for _, name := range slices.Sorted(maps.Keys(d.world.hosts)) {
				d.world.hosts[name].restored(lost)
			}
			d.flush()
		})
	})
}

// lead is a new leader: everything is sent, what vanished unseen is looked for, and from then on whatever a leader
// does.
func (d *delivery) lead() {
	d.down = false
	d.term++
	if err := d.offline.Lead(context.Background()); err != nil {
		d.world.breakf("crdwatch: sending everything: %v", err)
	}
	d.flush()
	first := true
	d.again(0, "resync", func(ctx context.Context) (time.Duration, error) {
		next, err := d.offline.Resync(ctx, first)
		first = false
		return next, err
	})
	d.again(crdwatch.LookInterval, "counting the workflows", d.offline.Look)
	d.again(0, "looking for older copies", func(ctx context.Context) (time.Duration, error) {
		v, err := d.offline.Guard(ctx)
		switch {
		case err != nil:
		case v.Kubernetes:
			d.world.tracef("crdwatch: etcd is an older copy: epoch %d", v.Next.Epoch)
			d.reread()
		case v.Temporal:
			d.world.tracef("crdwatch: Temporal is an older copy: epoch %d", v.Next.Epoch)
			d.lead()
		}
		return fencing.Interval, err
	})
}

// again does something for as long as this leadership lasts, each time as long after the last one as that said.
func (d *delivery) again(wait time.Duration, what string, do func(context.Context) (time.Duration, error)) {
	term := d.term
	d.world.after(wait, func() {
		if d.term != term || d.down || d.world.ending {
			return
		}
		next, err := do(context.Background())
		if err != nil {
			d.world.tracef("crdwatch: %s: %v", what, err)
		}
		d.flush()
		if d.term == term {
			d.again(next, what, do)
		}
	})
}

// reread reads everything anew, and leads.
func (d *delivery) reread() {
	d.silent = false
	d.offline.Read(kube.Objects(d.world.Kube))
	d.lead()
}

// send signals a workflow. A signal that comes between two runs of a chain, or is lost with the run that it reached too
// late, is sent again: Temporal loses none.
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
