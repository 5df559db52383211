package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/poddevice"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

const (
	// socketWait is how long one try waits for a launcher that has not opened its socket yet; it takes it some 20 ms
	// after its container has started. socketPause lies between two looks.
	socketWait  = 5 * time.Second
	socketPause = 20 * time.Millisecond
)

// Starter starts domains. It is safe for concurrent use; of one pod's callers one works at a time.
type Starter struct {
	Log       zerolog.Logger
	Dialer    launchers.Dialer
	Forwarder *forward.Forwarder
	// Prepare prepares the network of a launcher's pod.
	Prepare func(ctx context.Context, launcher *launchers.Launcher) ([]launchers.Interface, error)

	starts, operations quota

	mu     sync.Mutex
	inHand map[string]chan struct{} // pod UID → closed when the one at work is done
}

var _ activities.Starter = (*Starter)(nil)

// NewStarter makes a Starter. A second start in a pod waits for the first to end, which has been given up then; a
// second operation does not.
func NewStarter(
	log zerolog.Logger, d launchers.Dialer, f *forward.Forwarder,
	prepare func(context.Context, *launchers.Launcher) ([]launchers.Interface, error),
) *Starter {
	return &Starter{
		Log: log, Dialer: d, Forwarder: f, Prepare: prepare,
		starts:     quota{kind: "start", most: concurrentStarts, inPod: 2},
		operations: quota{kind: "operation", most: concurrentOperations, inPod: 1},
	}
}

// StartDomain records whose launcher the pod has, prepares the pod's network and has the launcher start its domain.
func (s *Starter) StartDomain(
	ctx context.Context, in contract.StartDomainInput,
) (contract.DomainObservation, error) {
	var none contract.DomainObservation
	vmi, pod := in.VMI, in.Pod
	log := s.Log.With().Str("namespace", vmi.Namespace).Str("name", vmi.Name).Str("uid", vmi.UID).
		Str("pod_uid", pod.UID).Logger()
	if !launchers.IsValidPodUID(pod.UID) {
		return none, &activities.RefusedError{Message: fmt.Sprintf("%.64q is not the UID of a pod", pod.UID)}
	}
	leave, err := s.starts.acquire(vmi, pod)
	if err != nil {
		return none, err
	}
	defer leave()
	done, err := s.lockPod(ctx, pod.UID)
	if err != nil {
		return none, err
	}
	defer done()
	begun := time.Now()
	launcher, err := s.reach(ctx, pod.UID)
	if err != nil {
		return none, err
	}
	defer launcher.Close()
	started, err := s.Forwarder.Starting(vmi, pod)
	if err != nil {
		return none, err
	}
	domain, err := s.start(ctx, launcher, in)
	if err != nil || ctx.Err() != nil {
		started(nil)
		log.Warn().Err(err).Msg("failed to start the domain")
		return none, errors.Join(err, ctx.Err())
	}
	started(&domain)
	log.Info().Str("state", string(domain.State)).Dur("took", time.Since(begun)).Msg("started the domain")
	return domain, nil
}

func (s *Starter) start(
	ctx context.Context, launcher *launchers.Launcher, in contract.StartDomainInput,
) (contract.DomainObservation, error) {
	if in.Booted {
		if domain, err := launcher.Domain(ctx); err != nil || domain.State == contract.DomainAbsent {
			return s.endLost(ctx, launcher, domain, err)
		}
	}
	interfaces, err := s.Prepare(ctx, launcher)
	if err != nil {
		return contract.DomainObservation{}, refusal(err)
	}
	domain, err := launcher.StartDomain(ctx, interfaces)
	if err != nil {
		return domain, refusal(err)
	}
	return domain, nil
}

// endLost ends a launcher that was restarted, without the guest that was booted in its pod.
func (s *Starter) endLost(
	ctx context.Context, launcher *launchers.Launcher, domain contract.DomainObservation, err error,
) (contract.DomainObservation, error) {
	if err != nil {
		return contract.DomainObservation{}, err
	}
	if _, err := launcher.Operate(ctx, contract.OperateDomainInput{Operation: contract.OperationEnd}); err != nil {
		return contract.DomainObservation{}, err
	}
	domain.State, domain.Reason = contract.DomainCrashed, contract.ReasonCrashed
	domain.Sequence++
	return domain, nil
}

// reach connects to a launcher that may be just about to open its socket.
func (s *Starter) reach(ctx context.Context, pod string) (*launchers.Launcher, error) {
	limit, cancel := context.WithTimeout(ctx, socketWait)
	defer cancel()
	for {
		l, err := s.Dialer.Connect(ctx, pod)
		if err == nil || !errors.Is(err, launchers.ErrAbsent) || launchers.IsPodGone(s.Dialer.KubeletDir, pod) {
			return l, err
		}
		select {
		case <-limit.Done():
			return nil, err
		case <-time.After(socketPause):
		}
	}
}

// lockPod waits until no other call works on the pod.
func (s *Starter) lockPod(ctx context.Context, pod string) (done func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.inHand[pod]
		if !busy {
			mine := make(chan struct{})
			if s.inHand == nil {
				s.inHand = map[string]chan struct{}{}
			}
			s.inHand[pod] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.inHand, pod)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for an earlier start in pod %s: %w", pod, ctx.Err())
		}
	}
}

// PrepareNetworks makes the pod's devices usable for its launcher, and gives its guest the networks that the launcher
// says its VMI has.
func PrepareNetworks(ctx context.Context, launcher *launchers.Launcher) ([]launchers.Interface, error) {
	namespace, err := launcher.Peer.NetworkNamespace()
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	root, err := launcher.Peer.Root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := poddevice.Ensure(root); err != nil {
		return nil, err
	}
	if vfio, err := poddevice.HasVFIO(root); err != nil {
		return nil, err
	} else if vfio {
		if err := launcher.Peer.AllowLocking(); err != nil {
			return nil, err
		}
	}
	plans, err := launcher.Networks(ctx)
	if err != nil {
		return nil, err
	}
	var out []launchers.Interface
	for _, plan := range plans {
		done, err := plan.Prepare(ctx, podnet.Pod{NetworkNamespace: namespace})
		if err != nil {
			return nil, err
		}
		out = append(out, launchers.Interface{
			Network: plan.Network, Tap: cmp.Or(done.Tap, plan.Tap), PodInterface: plan.PodInterface,
			Bridge: plan.Bridge, Prepared: done,
		})
	}
	return out, nil
}
