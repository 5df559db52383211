package launcher

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// resize has the guest see the new size of disks whose PVCs have grown. It can be repeated.
func (l *Launcher) resize(grown []*rpc.ClaimSize) error {
	vmi := l.vmi.DeepCopy()
	is := map[string]bool{}
	for _, g := range grown {
		known := claims.Known(vmi, g.GetVolume())
		if known == nil { // no disk is on it
			continue
		}
		now := claims.Info(contract.VolumeClaim{Capacity: g.GetCapacity(), Requests: g.GetRequests()})
		known.Capacity, known.Requests, is[g.GetVolume()] = now.Capacity, now.Requests, true
	}
	plan, err := l.plan(vmi)
	if err != nil {
		return err
	}
	var failures []error
	for _, v := range plan {
		if !is[v.Name] {
			continue
		}
		size, err := disk.Grow(v)
		if err == nil && size > 0 {
			err = l.hypervisor.Resize(v.Path, size)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("enlarging the disk %s: %w", v.Name, err))
		}
	}
	return errors.Join(failures...)
}
