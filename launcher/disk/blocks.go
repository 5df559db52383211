package disk

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

// matchesBlocks reports whether a volume's disk must have the block sizes of its storage.
func matchesBlocks(vmi *v1.VirtualMachineInstance, volume string) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Disks, func(d v1.Disk) bool {
		if d.Name != volume || d.BlockSize == nil || d.BlockSize.Custom != nil {
			return false
		}
		m := d.BlockSize.MatchVolume
		return m != nil && (m.Enabled == nil || *m.Enabled)
	})
}

// blocks returns the block sizes of a device, or of the file system with the file, as KubeVirt determines them.
func blocks(v domain.Volume) (domain.Blocks, error) {
	if !v.Block {
		var s unix.Statfs_t
		if err := unix.Statfs(v.Path, &s); err != nil {
			return domain.Blocks{}, fmt.Errorf("reading the file system of %s: %w", v.Path, err)
		}
		size := uint(s.Bsize) // of a file system
		return domain.Blocks{Logical: size, Physical: size, Discard: size}, nil
	}
	f, err := os.OpenFile(v.Path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return domain.Blocks{}, fmt.Errorf("opening %s: %w", v.Path, err)
	}
	defer f.Close()
	var sizes [2]uint
	for i, request := range []uint{unix.BLKSSZGET, unix.BLKPBSZGET} {
		n, err := unix.IoctlGetUint32(int(f.Fd()), request)
		if err != nil {
			return domain.Blocks{}, fmt.Errorf("reading the block size of %s: %w", v.Path, err)
		}
		sizes[i] = uint(n)
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return domain.Blocks{}, fmt.Errorf("reading %s: %w", v.Path, err)
	}
	// Without the file, the device's discard has no particular size.
	text, _ := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/queue/discard_granularity", unix.Major(s.Rdev),
		unix.Minor(s.Rdev)))
	discard, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	return correctSizes(sizes[0], sizes[1], uint(discard))
}

// correctSizes corrects sizes that a device reports where they are zero, or do not fit together.
func correctSizes(logical, physical, discard uint) (domain.Blocks, error) {
	if logical == 0 && physical == 0 {
		return domain.Blocks{}, fmt.Errorf("the device reports blocks of %d bytes", logical)
	}
	b := domain.Blocks{Logical: logical, Physical: physical, Discard: discard}
	if logical == 0 {
		b.Logical = physical
	}
	if physical == 0 {
		b.Physical = logical
	}
	if b.Discard%b.Logical != 0 {
		b.Discard = b.Physical
	}
	return b, nil
}
