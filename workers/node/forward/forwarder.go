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

	"github.com/virtflow/virtflow/workers/node/records"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Signaler sends signals; it is a part of Temporal's client.
type Signaler interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
}

// Launcher is a connection to a launcher.
type Launcher interface {
	Watch(ctx context.Context, changed func(contract.DomainObservation)) error
	Close()
}

// Options are what a Forwarder needs.
type Options struct {
	Log      zerolog.Logger
	Temporal Signaler
	Records  *records.Store
	// Connect reaches the launcher of a pod.
	Connect func(ctx context.Context, pod string) (Launcher, error)
	// PodGone says that nothing of a pod is left on this node.
	PodGone func(pod string) bool
	// Shortest and Longest wait between two tries of something that does not work; 0: 2 s and 1 min.
	Shortest, Longest time.Duration
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Forwarder follows launchers. It is safe for concurrent use.
type Forwarder struct {
	Options
	signals *prometheus.CounterVec

	mu   sync.Mutex
	pods map[string]*follower
	// recording is by the UID of a pod.
	recording singleflight.Group
	// ctx is that of Run; nil before, and its followers wait for it.
	ctx  context.Context //nolint:containedctx // followers come and go while Run runs
	done sync.WaitGroup
}

// New makes a Forwarder that knows the pods of records; Run starts following them.
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

// Followed lists the UIDs of the pods that are known.
func (f *Forwarder) Followed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for pod := range f.pods {
		all = append(all, pod)
	}
	return all
}

// VMI says whose launcher a pod has, as the VMI's own entity has said.
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

// Again tells entities once more what they were told since then: Temporal may have forgotten it.
func (f *Forwarder) Again(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		p.out.again(since)
	}
}

// Starting records whose launcher the pod has and holds back what it reports until the returned function is called:
// with the domain that the caller passes on to the entity itself, or nil. A pod is one VMI's for good.
func (f *Forwarder) Starting(vmi, pod contract.Object) (started func(*contract.DomainObservation), err error) {
	p, err := f.recorded(records.Record{Pod: pod, VMI: vmi})
	if err != nil {
		return nil, err
	}
	if p.record.VMI != vmi {
		return nil, fmt.Errorf("pod %s has the launcher of %s/%s (%s), not of %s/%s (%s)", pod.UID,
			p.record.VMI.Namespace, p.record.VMI.Name, p.record.VMI.UID, vmi.Namespace, vmi.Name, vmi.UID)
	}
	p.out.hold()
	return func(told *contract.DomainObservation) {
		p.out.release(told)
		if told != nil {
			p.remember(*told)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.start(p)
	}, nil
}

// recorded is the follower of a pod, which is recorded first if it is new. Nobody waits for the disk but who begins
// with that pod: consoles ask for others meanwhile.
func (f *Forwarder) recorded(r records.Record) (*follower, error) {
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
		f.pods[r.Pod.UID] = p
		f.mu.Unlock()
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return p.(*follower), nil //nolint:forcetypeassert // see above
}

// start follows a pod unless it is being followed; the caller holds the lock.
func (f *Forwarder) start(p *follower) {
	if f.ctx == nil || f.ctx.Err() != nil || p.following || f.pods[p.record.Pod.UID] != p {
		return
	}
	p.following = true
	f.done.Go(func() { p.follow(f.ctx) })
}

// forget ends what is known of a pod of which nothing is left.
func (f *Forwarder) forget(p *follower) {
	f.mu.Lock()
	delete(f.pods, p.record.Pod.UID)
	f.mu.Unlock()
	if err := f.Records.Remove(p.record.Pod.UID); err != nil {
		p.log.Error().Err(err).Msg("a launcher record is left over")
		return
	}
	p.log.Info().Msg("the pod is gone, and so is its launcher's record")
}

// pauses between tries of something that does not work.
func (f *Forwarder) pauses() wait.Backoff {
	return wait.Backoff{Duration: f.Shortest, Factor: 2, Steps: 10, Cap: f.Longest}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return errors.New("stopped")
	case <-t.C:
		return nil
	}
}
