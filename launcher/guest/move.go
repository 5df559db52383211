package guest

// Move has the parameters of a migration to another libvirt.
type Move struct {
	// Libvirt, Memory and Disks are the Unix sockets of the streams, with the same names at both ends.
	Libvirt, Memory, Disks string
	// Copy names the disks whose content is copied, by their targets: vda.
	Copy []string
	// Bandwidth in bytes per second; 0: no limit.
	Bandwidth int64
	// AutoConverge slows the virtual CPUs down until the memory changes slower than it is copied.
	AutoConverge bool
	// Unsafe has libvirt accept disks whose cache mode it considers unsafe.
	Unsafe bool
	// Parallel connections for the memory; less than 2: one.
	Parallel int
}

// Copying has the progress of a move. All sizes are in bytes, of memory and disks together.
type Copying struct {
	Total, Processed, Remaining int64
	// DirtyRate is how fast the guest changes its memory, Rate how fast it is copied; each per second.
	DirtyRate, Rate int64
	Iteration       int
	DowntimeMs      int64 // that libvirt expects
}

// Phases of a move, as libvirt writes them into its domain's status file. "" means that no move is in progress.
const (
	// PhaseConfirmed: the target has confirmed that it has the guest, and libvirt is about to end the source's QEMU.
	PhaseConfirmed = "confirm3"
	// PhaseUnknown: the status cannot be read.
	PhaseUnknown = "unknown"
)
