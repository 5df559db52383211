package launcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// counted is a guest whose statistics are read. Calls whose fields are not set must not happen.
type counted struct {
	Hypervisor
	read    func() (*rpc.StatisticsResponse, error)
	measure func() error
	agent   func(command string) (string, error)
}

func (c *counted) Statistics() (*rpc.StatisticsResponse, error) { return c.read() }
func (c *counted) MeasureDirtyRate() error                      { return c.measure() }
func (c *counted) AgentCommand(command string, _ time.Duration) (string, error) {
	return c.agent(command)
}

func running(c *counted) *Launcher {
	l := New(Config{}, nil, Tools{Hypervisor: c}, zerolog.Nop())
	l.domain.Update(func(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_RUNNING })
	return l
}

func TestStatisticsNeedGuest(t *testing.T) {
	const runs = rpc.DomainState_DOMAIN_STATE_RUNNING
	for name, c := range map[string]struct {
		state    rpc.DomainState
		incoming receiving
		err      error
		want     codes.Code
	}{
		"running":      {state: runs},
		"paused":       {state: rpc.DomainState_DOMAIN_STATE_PAUSED},
		"not started":  {state: rpc.DomainState_DOMAIN_STATE_ABSENT, want: codes.FailedPrecondition},
		"has ended":    {state: rpc.DomainState_DOMAIN_STATE_SHUTOFF, want: codes.FailedPrecondition},
		"is arriving":  {state: runs, incoming: receiving{migration: "m"}, want: codes.FailedPrecondition},
		"has arrived":  {state: runs, incoming: receiving{migration: "m", resumed: true}},
		"disconnected": {state: runs, err: guest.ErrUnavailable, want: codes.Unavailable},
		"refused":      {state: runs, err: errors.New("no"), want: codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := running(&counted{
					read:    func() (*rpc.StatisticsResponse, error) { return &rpc.StatisticsResponse{}, c.err },
					measure: func() error { return nil },
				})
				l.domain.Update(func(d *rpc.Domain) { d.State = c.state })
				l.incoming.update(func(r *receiving) { *r = c.incoming })
				_, err := l.statistics(t.Context())
				require.Equal(t, c.want, status.Code(err), "%v", err)
				synctest.Wait()
			})
		})
	}
}

// TestHungLibvirtHoldsUpOneCall: callers leave at their deadline, and do not add calls to libvirt.
func TestHungLibvirtHoldsUpOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, hang := 0, make(chan struct{})
		l := running(&counted{
			read: func() (*rpc.StatisticsResponse, error) {
				calls++
				<-hang
				return &rpc.StatisticsResponse{}, nil
			},
			measure: func() error { return nil },
		})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, err := l.statistics(ctx)
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			cancel()
		}
		synctest.Wait()
		require.Equal(t, 1, calls)
		close(hang)
		synctest.Wait()
		_, err := l.statistics(t.Context())
		require.NoError(t, err, "it answers again")
		synctest.Wait()
	})
}

func TestStatisticsAreOfBuiltDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(&counted{
			read: func() (*rpc.StatisticsResponse, error) {
				return &rpc.StatisticsResponse{
					Drives:     []*rpc.DriveStatistics{{Name: "vda"}, {Name: "vdb"}},
					Interfaces: []*rpc.InterfaceStatistics{{Name: "tap0"}, {Name: "tap1"}},
				}, nil
			},
			measure: func() error { return nil },
		})
		l.made.Store(&built{domain: &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{
			Disks: []libvirtxml.DomainDisk{{Target: &libvirtxml.DomainDiskTarget{Dev: "vda"},
				Alias: &libvirtxml.DomainAlias{Name: domain.AliasPrefix + "rootdisk"}}},
			Interfaces: []libvirtxml.DomainInterface{{Target: &libvirtxml.DomainInterfaceTarget{Dev: "tap1"},
				Alias: &libvirtxml.DomainAlias{Name: domain.AliasPrefix + "backend"}}},
		}}})
		s, err := l.statistics(t.Context())
		require.NoError(t, err)
		require.Equal(t, "rootdisk", s.GetDrives()[0].GetName())
		require.Equal(t, "vdb", s.GetDrives()[1].GetName(), "it has no name in the spec")
		require.Equal(t, "tap0", s.GetInterfaces()[0].GetName())
		require.Equal(t, "backend", s.GetInterfaces()[1].GetName())
		synctest.Wait()
	})
}

// TestDirtyRateIsOfEarlierCall: a call starts a measurement, and a later one has its result.
func TestDirtyRateIsOfEarlierCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measurements, found := 0, (*uint64)(nil)
		l := running(&counted{
			read: func() (*rpc.StatisticsResponse, error) {
				return &rpc.StatisticsResponse{DirtyRate: found}, nil
			},
			measure: func() error { measurements++; return nil },
		})
		rate := func() *uint64 {
			s, err := l.statistics(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			return s.DirtyRate
		}
		require.Nil(t, rate())
		require.Equal(t, 1, measurements)
		require.Nil(t, rate(), "QEMU still measures")
		require.Equal(t, 1, measurements, "the last one has just begun")

		time.Sleep(30 * time.Second)
		found = new(uint64(1 << 20))
		require.EqualValues(t, 1<<20, *rate())
		require.Equal(t, 2, measurements)
		found = nil
		require.EqualValues(t, 1<<20, *rate(), "the last result counts while QEMU measures")

		l.outgoing.session.Store(
			migration.NewSession("uid", nil, guest.Move{}, nil, false, zerolog.Nop()))
		time.Sleep(measuredAge)
		require.Nil(t, rate(), "the result is too old")
		require.Equal(t, 2, measurements, "libvirt would have it wait for the end of the move")
	})
}

func TestDirtyRateHasLimitedAge(t *testing.T) {
	for name, c := range map[string]struct{ isBegun, isFound bool }{
		"measurements have no result":  {isBegun: true},
		"no more measurements":         {isFound: true},
		"neither is there":             {},
		"measurements have the result": {isBegun: true, isFound: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, rate := &dirtyRate{}, new(uint64(1<<20))
				measure := func() {
					r.measure(func() error { return nil }, func(err error) { t.Error(err) })
					synctest.Wait()
				}
				measure()
				require.EqualValues(t, 1<<20, *r.settle(rate, time.Now()))
				for spent := time.Duration(0); spent < measuredAge; spent += 30 * time.Second {
					time.Sleep(30 * time.Second)
					if c.isBegun {
						measure()
					}
					if c.isFound {
						r.settle(rate, time.Now())
					}
				}
				require.Equal(t, c.isBegun && c.isFound, r.settle(nil, time.Now()) != nil)
			})
		})
	}
}

// TestStatisticsOfSilentAgent: statistics do not wait for the guest, and a paused or frozen guest is not asked.
func TestStatisticsOfSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hang := make(chan string, 8), make(chan struct{})
		l := running(&counted{
			read:    func() (*rpc.StatisticsResponse, error) { return &rpc.StatisticsResponse{}, nil },
			measure: func() error { return nil },
			agent: func(command string) (string, error) {
				asked <- command
				<-hang
				return "", guest.ErrSilent
			},
		})
		read := func() {
			_, err := l.statistics(t.Context())
			require.NoError(t, err)
			synctest.Wait()
		}
		read()
		require.Empty(t, asked, "the agent is not connected")
		l.domain.Update(func(d *rpc.Domain) { d.AgentConnected, d.Frozen = true, true })
		read()
		require.Empty(t, asked, "the guest is frozen")
		l.domain.Update(func(d *rpc.Domain) { d.Frozen, d.State = false, rpc.DomainState_DOMAIN_STATE_PAUSED })
		read()
		require.Empty(t, asked, "the guest is paused")
		l.domain.Update(func(d *rpc.Domain) { d.State = rpc.DomainState_DOMAIN_STATE_RUNNING })
		read()
		read()
		require.Len(t, asked, 1, "a request is in progress")
		close(hang)
		synctest.Wait()
	})
}
