package libvirtd

import (
	"errors"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// dirtyRatePeriod is how long a measurement of the dirty rate takes, in seconds. KubeVirt's takes as long.
const dirtyRatePeriod = 1

// kibibyte is libvirt's unit for memory.
const kibibyte = 1 << 10

// counted are the statistics that are read.
const counted = libvirt.DOMAIN_STATS_CPU_TOTAL | libvirt.DOMAIN_STATS_BALLOON | libvirt.DOMAIN_STATS_VCPU |
	libvirt.DOMAIN_STATS_INTERFACE | libvirt.DOMAIN_STATS_BLOCK | libvirt.DOMAIN_STATS_DIRTYRATE

// Statistics returns what libvirt and QEMU count of the domain. One call of libvirt's bulk interface asks QEMU; the
// others, such as the binding's for the number of virtual CPUs, read what libvirt knows. A drive has the name that the
// guest's bus gives it (vda), an interface that of its tap device. While another call uses QEMU's monitor, what only
// QEMU knows is left out, rather than waited for. A QEMU that hangs holds the call up without limit.
func (l *Libvirt) Statistics() (*rpc.StatisticsResponse, error) {
	d, err := l.handle()
	if err != nil {
		return nil, err
	}
	defer d.Free() //nolint:errcheck // a handle
	conn, err := d.DomainGetConnect()
	if err != nil {
		return nil, l.failed("reading the domain's statistics", err)
	}
	defer conn.Close()
	all, err := conn.GetAllDomainStats([]*libvirt.Domain{d}, counted, libvirt.CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
	if err != nil {
		return nil, l.failed("reading the domain's statistics", err)
	}
	defer func() {
		for i := range all {
			_ = all[i].Domain.Free() // a handle
		}
	}()
	if len(all) != 1 {
		return nil, &RefusedError{errors.New("libvirt has no statistics of the domain")}
	}
	out := statistics(&all[0])
	out.Affinities = l.affinities(d)
	return out, nil
}

// MeasureDirtyRate begins to measure how fast the guest changes its memory: Statistics has the result later. It must
// not be called while the guest is moved, since libvirt would have it wait for the end of that.
func (l *Libvirt) MeasureDirtyRate() error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	if err := d.StartDirtyRateCalc(dirtyRatePeriod, libvirt.DOMAIN_DIRTYRATE_MODE_PAGE_SAMPLING); err != nil {
		return l.failed("measuring the dirty rate", err)
	}
	return nil
}

// affinities returns the number of pairs of a virtual CPU and a CPU on which it may run. Nothing changes it while the
// domain runs, and libvirt reads much of /sys to answer, so it is asked once; nil: it does not know.
func (l *Libvirt) affinities(d *libvirt.Domain) *uint32 {
	if known := l.pairs.Load(); known != nil {
		return known
	}
	pins, err := d.GetVcpuPinInfo(libvirt.DOMAIN_AFFECT_CURRENT)
	if err != nil {
		l.log.Debug().Err(err).Msg("failed to read CPU affinities of domain")
		return nil
	}
	n := countPairs(pins)
	l.pairs.Store(&n)
	return &n
}

func countPairs(pins [][]bool) uint32 {
	n := uint32(0)
	for _, cpus := range pins {
		for _, may := range cpus {
			if may {
				n++
			}
		}
	}
	return n
}

// failed is failure for a caller that does not hold mu.
func (l *Libvirt) failed(doing string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return errNotConnected
	}
	return l.failure(doing, err)
}
