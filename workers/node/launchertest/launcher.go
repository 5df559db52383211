package launchertest

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Launcher is one whose domain is what a test says. It is safe for concurrent use.
type Launcher struct {
	rpc.UnimplementedLauncherServer

	// Start answers StartDomain; nil: the domain runs.
	Start func(ctx context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error)
	// Wanted answers Networks; nil: this launcher does not know it.
	Wanted func() (*rpc.NetworksResponse, error)
	// Operation answers Operate; nil: this launcher does not know it.
	Operation func(ctx context.Context, r *rpc.OperateRequest) (*rpc.Domain, error)
	// Count answers Statistics; nil: this launcher does not know it.
	Count func(ctx context.Context) (*rpc.StatisticsResponse, error)

	mu       sync.Mutex
	domain   *rpc.Domain
	changed  chan struct{}
	starts   int
	watchers int
}

// NewLauncher has not started its domain.
func NewLauncher() *Launcher {
	return &Launcher{domain: &rpc.Domain{State: rpc.DomainState_DOMAIN_STATE_ABSENT}, changed: make(chan struct{})}
}

// Networks implements rpc.LauncherServer.
func (l *Launcher) Networks(ctx context.Context, r *rpc.NetworksRequest) (*rpc.NetworksResponse, error) {
	if l.Wanted == nil {
		return l.UnimplementedLauncherServer.Networks(ctx, r)
	}
	return l.Wanted()
}

// Change makes the domain what set makes of it.
func (l *Launcher) Change(set func(*rpc.Domain)) *rpc.Domain {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &rpc.Domain{Sequence: l.domain.GetSequence() + 1, State: l.domain.GetState(), Reason: l.domain.GetReason(),
		AgentConnected: l.domain.GetAgentConnected()}
	set(d)
	l.domain = d
	close(l.changed)
	l.changed = make(chan struct{})
	return d
}

// Become gives the domain a state.
func (l *Launcher) Become(s rpc.DomainState) *rpc.Domain {
	return l.Change(func(d *rpc.Domain) { d.State = s })
}

// Starts counts the calls of StartDomain, Watchers the open calls of Watch.
func (l *Launcher) Starts() int   { l.mu.Lock(); defer l.mu.Unlock(); return l.starts }
func (l *Launcher) Watchers() int { l.mu.Lock(); defer l.mu.Unlock(); return l.watchers }

// StartDomain implements rpc.LauncherServer.
func (l *Launcher) StartDomain(ctx context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error) {
	l.mu.Lock()
	l.starts++
	d := l.domain
	l.mu.Unlock()
	if l.Start != nil {
		return l.Start(ctx, r)
	}
	if d.GetState() == rpc.DomainState_DOMAIN_STATE_ABSENT {
		d = l.Become(rpc.DomainState_DOMAIN_STATE_RUNNING)
	}
	return d, nil
}

// GetDomain implements rpc.LauncherServer.
func (l *Launcher) GetDomain(context.Context, *rpc.GetDomainRequest) (*rpc.Domain, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.domain, nil
}

// Operate implements rpc.LauncherServer.
func (l *Launcher) Operate(ctx context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
	if l.Operation == nil {
		return l.UnimplementedLauncherServer.Operate(ctx, r)
	}
	return l.Operation(ctx, r)
}

// Statistics implements rpc.LauncherServer.
func (l *Launcher) Statistics(ctx context.Context, r *rpc.StatisticsRequest) (*rpc.StatisticsResponse, error) {
	if l.Count == nil {
		return l.UnimplementedLauncherServer.Statistics(ctx, r)
	}
	return l.Count(ctx)
}

// Watch implements rpc.LauncherServer.
func (l *Launcher) Watch(_ *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.Domain]) error {
	l.count(1)
	defer l.count(-1)
	for {
		l.mu.Lock()
		d, changed := l.domain, l.changed
		l.mu.Unlock()
		if err := stream.Send(d); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (l *Launcher) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers += n
}
