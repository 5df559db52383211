package launcher

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// counting has the calls for statistics.
type counting struct {
	// call has one call to libvirt for all callers: one that hangs, because QEMU does, is not followed by more.
	call  sharedCall[*rpc.StatisticsResponse]
	usage *agent.Usage
	rate  dirtyRate
}

// statistics implements the service's call.
func (l *Launcher) statistics(ctx context.Context) (*rpc.StatisticsResponse, error) {
	s := l.domain.Domain().GetState()
	if s != rpc.DomainState_DOMAIN_STATE_RUNNING && s != rpc.DomainState_DOMAIN_STATE_PAUSED ||
		l.incoming.get().isArriving() {
		return nil, status.Error(codes.FailedPrecondition, "the launcher has no guest")
	}
	r, err := l.counting.call.do(ctx, l.readStatistics)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, guest.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return nil, status.Error(codes.Internal, err.Error())
}

// readStatistics reads the statistics from libvirt and adds what the agent answered last. Then it has the agent asked
// again, and the dirty rate measured, both in the background, for a later call.
func (l *Launcher) readStatistics() (*rpc.StatisticsResponse, error) {
	s, err := l.hypervisor.Statistics()
	if err != nil {
		return nil, err
	}
	if made := l.made.Load(); made != nil {
		nameDevices(s, made.domain)
	}
	s.DirtyRate = l.counting.rate.settle(s.DirtyRate, time.Now())
	s.FileSystems, s.Load = l.counting.usage.Known()
	rpc.CutStatistics(s)

	if d := l.domain.Domain(); d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING {
		if d.GetAgentConnected() && !d.GetFrozen() {
			l.counting.usage.Refresh()
		}
		if l.checkNotMoving() == nil {
			l.counting.rate.measure(l.hypervisor.MeasureDirtyRate, func(err error) {
				l.log.Debug().Err(err).Msg("failed to measure dirty rate of guest")
			})
		}
	}
	return s, nil
}

// nameDevices replaces the names by which libvirt knows drives and interfaces by those of the VMI's spec, which are in
// the aliases that the domain was built with. A device without such an alias keeps its name.
func nameDevices(s *rpc.StatisticsResponse, d *libvirtxml.Domain) {
	if d == nil || d.Devices == nil {
		return
	}
	drives, interfaces := map[string]string{}, map[string]string{}
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.Target != nil && disk.Alias != nil {
			drives[disk.Target.Dev] = strings.TrimPrefix(disk.Alias.Name, domain.AliasPrefix)
		}
	}
	for i := range d.Devices.Interfaces {
		if f := &d.Devices.Interfaces[i]; f.Target != nil && f.Alias != nil {
			interfaces[f.Target.Dev] = strings.TrimPrefix(f.Alias.Name, domain.AliasPrefix)
		}
	}
	for _, drive := range s.GetDrives() {
		if name, ok := drives[drive.GetName()]; ok {
			drive.Name = name
		}
	}
	for _, i := range s.GetInterfaces() {
		if name, ok := interfaces[i.GetName()]; ok {
			i.Name = name
		}
	}
}

const (
	// measurePause is the shortest time between two measurements of the dirty rate: QEMU takes samples of the guest's
	// memory for each. It is shorter than the usual half a minute between scrapes, so that each has a result.
	measurePause = 25 * time.Second
	// measuredAge is the age up to which a measurement counts.
	measuredAge = 5 * time.Minute
)

// dirtyRate has the last measurement of how fast the guest changes its memory. It is safe for concurrent use.
type dirtyRate struct {
	busy atomic.Bool // a measurement is being requested

	mu    sync.Mutex
	begun time.Time // when the last one began; zero: there was none
	found time.Time // when QEMU last had a result
	last  *uint64
}

// settle returns the rate that counts now. found is what QEMU has: nil while it measures. QEMU keeps a result until the
// next measurement begins, so both times limit the age of a result.
func (r *dirtyRate) settle(found *uint64, now time.Time) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found != nil {
		r.last, r.found = found, now
	}
	if r.begun.IsZero() || now.Sub(r.begun) >= measuredAge || now.Sub(r.found) >= measuredAge {
		return nil
	}
	return r.last
}

// measure begins a measurement, unless there was one just now or one is still being requested. libvirt may hold the
// request up for half a minute, so the caller does not wait for it.
func (r *dirtyRate) measure(begin func() error, failed func(error)) {
	r.mu.Lock()
	recent := !r.begun.IsZero() && time.Since(r.begun) < measurePause
	r.mu.Unlock()
	if recent || !r.busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer r.busy.Store(false)
		if err := begin(); err != nil {
			failed(err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.begun = time.Now()
	}()
}
