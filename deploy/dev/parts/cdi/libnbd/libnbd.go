package libnbd

import "errors"

// ErrLeftOut is the error of an import from VMware.
var ErrLeftOut = errors.New("this importer is built without libnbd: it cannot import from VMware")

// Flags of libnbd's, as far as the importer knows of them. Nothing here looks at them.
const (
	CMD_FLAG_REQ_ONE        = CmdFlag(1 << 3)
	STATE_HOLE       uint32 = 1
	STATE_ZERO       uint32 = 2
)

type (
	// CmdFlag is a flag of a request.
	CmdFlag uint32
	// ExtentCallback is called with what is known of a range.
	ExtentCallback func(metacontext string, offset uint64, extents []uint32, err *int) int
	// PreadOptargs are options of a read.
	PreadOptargs struct{}
	// BlockStatusOptargs are options of a question for what is known of a range.
	BlockStatusOptargs struct {
		FlagsSet bool
		Flags    CmdFlag
	}
	// LibnbdError is an error of libnbd's.
	LibnbdError struct{}
	// Libnbd is a connection; there is none.
	Libnbd struct{}
)

func (*LibnbdError) Error() string { return ErrLeftOut.Error() }

// Create fails, so that none of the methods is called.
func Create() (*Libnbd, error) { return nil, ErrLeftOut }

func (*Libnbd) AddMetaContext(string) error               { return ErrLeftOut }
func (*Libnbd) ConnectUri(string) error                   { return ErrLeftOut }
func (*Libnbd) GetSize() (uint64, error)                  { return 0, ErrLeftOut }
func (*Libnbd) Pread([]byte, uint64, *PreadOptargs) error { return ErrLeftOut }
func (*Libnbd) Close() *LibnbdError                       { return &LibnbdError{} }
func (*Libnbd) BlockStatus(uint64, uint64, ExtentCallback, *BlockStatusOptargs) error {
	return ErrLeftOut
}
