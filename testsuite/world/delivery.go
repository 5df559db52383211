package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/diff"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/offline"
)

// Delays from a change to crdwatch's informer, and from crdwatch to the workflow.
const (
	watchLag  = 9 * time.Millisecond
	signalLag = 6 * time.Millisecond
)

// kindDomain marks observations of a node worker, which retries until Temporal has accepted them.
const kindDomain = "domain"

// outage is the time for which a Temporal server that has lost its last commits is unavailable.
const outage = 5 * time.Second

// Chaos has what happens to observations on their way. Probabilities are between 0 and 1. The zero value changes
// nothing.
type Chaos struct {
	Seed      uint64
	Duplicate float64 // sent twice, the second time up to LateBy later
	Delay     float64 // sent up to LateBy later, and so out of order
	Drop      float64 // acknowledged and lost: Temporal then becomes unavailable, and answers again after an outage
	LateBy    time.Duration
}

// deliveries carries changes in Kubernetes to the workflows, as crdwatch does.
type deliveries struct {
	world   *World
	offline *offline.Watcher
	chaos   Chaos
	random  *rand.Rand
	// term counts the leaderships; down: no crdwatch leads, so nothing is sent.
	term int
	down bool
	// silent: the watches wait for versions that etcd has not reached again since it was restored from a backup.
	silent bool
	// lost is the time at which the connection to Temporal was lost; zero: it is up.
	lost time.Time
	// dropNext: the next observation is acknowledged and lost.
	dropNext bool
	// inFlight counts the observations that are on their way to a workflow.
	inFlight int

	Happened
}

// Happened counts the observations by what chaos did to them.
type Happened struct{ Sent, Duplicated, Delayed, Dropped int }

// Plus returns the sum.
func (h Happened) Plus(o Happened) Happened {
	return Happened{Sent: h.Sent + o.Sent, Duplicated: h.Duplicated + o.Duplicated, Delayed: h.Delayed + o.Delayed,
		Dropped: h.Dropped + o.Dropped}
}

// Happened returns the counts so far.
func (w *World) Happened() Happened { return w.delivery.Happened }

func newDeliveries(w *World, chaos Chaos) (*deliveries, error) {
	watcher, err := newWatcher(w)
	if err != nil {
		return nil, err
	}
	return &deliveries{world: w, offline: watcher, chaos: chaos, random: rand.New(rand.NewPCG(chaos.Seed, 1)),
		down: true}, nil
}

// newWatcher returns a crdwatch that has just started.
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

// replaceWatcher replaces crdwatch by another one, which starts to lead.
func (d *deliveries) replaceWatcher() error {
	watcher, err := newWatcher(d.world)
	if err != nil {
		return err
	}
	d.offline = watcher
	d.relist()
	return nil
}

// changed handles every change in Kubernetes.
func (d *deliveries) changed(c kube.Change) {
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

// flush sends what crdwatch has queued.
func (d *deliveries) flush() {
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

// dispatch sends one observation, with what chaos adds.
func (d *deliveries) dispatch(x *delivery.Delivery) {
	if d.world.missing[PartTemporal] || d.world.missing[PartControl] { // it is sent, or received, once both are back
		d.world.after(time.Second, func() { d.dispatch(x) })
		return
	}
	late := func() time.Duration { return time.Duration(d.random.Int64N(int64(max(d.chaos.LateBy, 1)))) }
	wait := signalLag
	switch {
	case x.Kind != kindDomain && (d.dropNext || d.chaos.Drop > 0 && d.random.Float64() < d.chaos.Drop):
		if d.dropNext {
			d.dropNext = false
			d.world.faultHit++
		}
		d.Dropped++
		d.world.tracef("Temporal acknowledges %s of %s to %s, and loses it", x.Signal, x.UID, x.Workflow)
		d.loseConnection()
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

// sendIn sends x after wait. Until then x counts as in flight.
func (d *deliveries) sendIn(wait time.Duration, x *delivery.Delivery) {
	d.inFlight++
	d.world.after(wait, func() {
		d.inFlight--
		d.world.send(x)
	})
}

// isIdle reports whether Temporal answers and nothing is in flight.
func (d *deliveries) isIdle() bool { return d.lost.IsZero() && d.inFlight == 0 }

// repeatOf returns whether chaos repeats a signal that two entities exchange about a migration, and after which time.
func (d *deliveries) repeatOf(signal string) (wait time.Duration, again bool) {
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

// loseConnection makes Temporal unavailable within a second, for an outage. Afterwards crdwatch and the node workers
// redeliver what Temporal had acknowledged shortly before.
func (d *deliveries) loseConnection() {
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
				d.world.hosts[name].resendSince(lost)
			}
			d.flush()
		})
	})
}

// startLeading begins a leadership: it sends everything, looks for objects that vanished unseen, and starts the
// leader's periodic work.
func (d *deliveries) startLeading() {
	d.down = false
	d.term++
	if err := d.offline.Lead(context.Background()); err != nil {
		d.world.breakf("crdwatch: sending everything: %v", err)
	}
	d.flush()
	first := true
	d.repeat(0, "resync", func(ctx context.Context) (time.Duration, error) {
		next, err := d.offline.Resync(ctx, first)
		first = false
		return next, err
	})
	d.repeat(diff.CensusInterval, "counting the workflows", d.offline.TakeCensus)
	d.repeat(0, "looking for older copies", func(ctx context.Context) (time.Duration, error) {
		v, err := d.offline.Guard(ctx)
		switch {
		case err != nil:
		case v.Kubernetes:
			d.world.tracef("crdwatch: etcd is an older copy: epoch %d", v.Next.Epoch)
			d.relist()
		case v.Temporal:
			d.world.tracef("crdwatch: Temporal is an older copy: epoch %d", v.Next.Epoch)
			d.startLeading()
		}
		return restore.Interval, err
	})
}

// repeat calls do for as long as this leadership lasts. Each call returns the time until the next one.
func (d *deliveries) repeat(wait time.Duration, what string, do func(context.Context) (time.Duration, error)) {
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
			d.repeat(next, what, do)
		}
	})
}

// relist lists everything again, and starts to lead.
func (d *deliveries) relist() {
	d.silent = false
	d.offline.Read(kube.Objects(d.world.Kube))
	d.startLeading()
}

// send signals a workflow. A signal that arrives between two runs of a chain, or is lost with a run that was closing,
// is sent again: Temporal loses none.
func (w *World) send(x *delivery.Delivery) {
	key := x.Workflow + " " + x.Signal
	before := w.workflows.taken[key]
	starts := w.workflows.isClosed(x.Workflow)
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
