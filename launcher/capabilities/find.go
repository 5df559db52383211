package capabilities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Libvirt is what is needed of it. Package libvirtd is the real one.
type Libvirt interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// Capabilities returns libvirt's three answers for domains of a type, kvm or qemu.
	Capabilities(virtType string) (host, guest, baseline string, err error)
}

// readyLimit is how long the daemon has for its first answer.
const readyLimit = time.Minute

// Find starts libvirt, asks it, and ends it again.
func Find(ctx context.Context, l Libvirt, kvm bool) (contract.HostCapabilities, error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		stop()
		<-ended //nolint:errcheck // it was told to end
	}()
	select {
	case <-l.Ready():
	case err := <-ended:
		ended <- err
		if err == nil {
			err = ctx.Err()
		}
		return contract.HostCapabilities{}, fmt.Errorf("setting libvirt up: %w", err)
	case <-time.After(readyLimit):
		return contract.HostCapabilities{}, errors.New("libvirtd did not answer")
	}
	virtType := "qemu"
	if kvm {
		virtType = "kvm"
	}
	host, guest, baseline, err := l.Capabilities(virtType)
	if err != nil {
		return contract.HostCapabilities{}, err
	}
	return From(host, guest, baseline, virtType)
}
