package forward

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/records"
)

// Signaler sends signals; it is a part of Temporal's client.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Launcher is a connection to a launcher.
type Launcher interface {
	Watch(ctx context.Context, changed func(contract.DomainObservation)) error
	Statistics(ctx context.Context) (*rpc.StatisticsResponse, error)
	Close()
}

// Options configures a Forwarder.
type Options struct {
	Log      zerolog.Logger
	Temporal Signaler
	Records  *records.Store
	// Connect connects to the launcher of a pod.
	Connect func(ctx context.Context, pod string) (Launcher, error)
	// IsPodGone reports whether nothing of a pod is left on this node.
	IsPodGone func(pod string) bool
	// Shortest and Longest bound the back-off after a failure; 0: 2 s and 1 min.
	Shortest, Longest time.Duration
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Forwarder follows launchers. It is safe for concurrent use.
type Forwarder struct {
	Options
	signals *prometheus.CounterVec

	mu    sync.Mutex
	pods  map[string]*follower
	order int // of the pod recorded last
	// recording has one call for each UID of a pod.
	recording singleflight.Group
	// ctx is the context of Run; nil before. Followers wait for it.
	ctx  context.Context // followers come and go while Run runs
	done sync.WaitGroup
}

// New returns a Forwarder that has the pods of known; Run starts following them.
func New(o Options, known []records.Record) *Forwarder {
	if o.Shortest == 0 {
		o.Shortest, o.Longest = 2*time.Second, time.Minute
	}
	f := &Forwarder{Options: o, pods: map[string]*follower{}, signals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_node_domain_signals_total",
		Help: "Signals about domains on this node, by what became of them.",
	}, []string{"result"})}
	for _, r := range known {
		f.pods[r.Pod.UID] = newFollower(f, r)
	}
	if o.Registry != nil {
		o.Registry.MustRegister(f.signals, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtflow_node_launchers", Help: "Launchers on this node that are watched.",
		}, func() float64 { return float64(len(f.Followed())) }))
	}
	return f
}

// Followed returns the UIDs of the pods that it has.
func (f *Forwarder) Followed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for pod := range f.pods {
		all = append(all, pod)
	}
	return all
}

// Guest is a pod that the Forwarder has.
type Guest struct {
	// VMI is as the VMI's own entity has named it.
	VMI contract.Object
	// Pod is the pod's UID.
	Pod string
	// Launcher is the connection that is watched, which may end at any time; nil: there is none now.
	Launcher Launcher
	// Order is higher for pods that were recorded later; 0 for those that were known at the start.
	Order int
}

// Guests returns the pods that it has.
func (f *Forwarder) Guests() []Guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Guest, 0, len(f.pods))
	for pod, p := range f.pods {
		all = append(all, Guest{VMI: p.record.VMI, Pod: pod, Launcher: p.launcher, Order: p.order})
	}
	return all
}

// VMI returns the VMI whose launcher a pod has, as the VMI's own entity has named it.
func (f *Forwarder) VMI(pod string) (contract.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.pods[pod]
	if !ok {
		return contract.Object{}, false
	}
	return p.record.VMI, true
}

// Run follows launchers until ctx ends.
func (f *Forwarder) Run(ctx context.Context) {
	f.mu.Lock()
	f.ctx = ctx
	for _, p := range f.pods {
		f.start(p)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.done.Wait()
}

// Redeliver sends entities again what they were sent since then, because Temporal may have lost it.
func (f *Forwarder) Redeliver(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		p.out.redeliver(since)
	}
}

// Starting records whose launcher the pod has, and suspends the forwarding of its observations until the returned
// function is called: with the domain that the caller returns to the entity itself, or nil. A pod belongs to the same
// VMI for good.
func (f *Forwarder) Starting(vmi, pod contract.Object) (started func(*contract.DomainObservation), err error) {
	p, err := f.followerOf(records.Record{Pod: pod, VMI: vmi})
	if err != nil {
		return nil, err
	}
	if p.record.VMI != vmi {
		return nil, fmt.Errorf("pod %s has the launcher of %s/%s (%s), not of %s/%s (%s)", pod.UID,
			p.record.VMI.Namespace, p.record.VMI.Name, p.record.VMI.UID, vmi.Namespace, vmi.Name, vmi.UID)
	}
	p.out.suspend()
	return func(delivered *contract.DomainObservation) {
		p.out.resume(delivered)
		if delivered != nil {
			p.recordDelivered(*delivered)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.start(p)
	}, nil
}

// followerOf returns the follower of a pod, which it first records if it is new. It does not hold the lock while it
// writes to the disk, so that consoles of other pods need not wait.
func (f *Forwarder) followerOf(r records.Record) (*follower, error) {
	p, err, _ := f.recording.Do(r.Pod.UID, func() (any, error) {
		f.mu.Lock()
		p, ok := f.pods[r.Pod.UID]
		f.mu.Unlock()
		if ok {
			return p, nil
		}
		if err := f.Records.Save(r); err != nil {
			return nil, err
		}
		p = newFollower(f, r)
		f.mu.Lock()
		f.order++
		p.order = f.order
		f.pods[r.Pod.UID] = p
		f.mu.Unlock()
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return p.(*follower), nil
}

// start follows a pod unless it is being followed; the caller holds the lock.
func (f *Forwarder) start(p *follower) {
	if f.ctx == nil || f.ctx.Err() != nil || p.following || f.pods[p.record.Pod.UID] != p {
		return
	}
	p.following = true
	f.done.Go(func() { p.follow(f.ctx) })
}

// forget drops a pod of which nothing is left.
func (f *Forwarder) forget(p *follower) {
	f.mu.Lock()
	delete(f.pods, p.record.Pod.UID)
	f.mu.Unlock()
	if err := f.Records.Remove(p.record.Pod.UID); err != nil {
		p.log.Error().Err(err).Msg("failed to remove a launcher record")
		return
	}
	p.log.Info().Msg("removed the launcher record of a pod that is gone")
}

// backoff returns the back-off after failures.
func (f *Forwarder) backoff() wait.Backoff {
	return wait.Backoff{Duration: f.Shortest, Factor: 2, Steps: 10, Cap: f.Longest}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return errors.New("stopped")
	case <-t.C:
		return nil
	}
}
