package capabilities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Libvirt has the calls that Find makes. Package libvirtd implements it.
type Libvirt interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// Capabilities returns libvirt's three descriptions for domains of a type, kvm or qemu.
	Capabilities(virtType string) (host, guest, baseline string, err error)
}

// readyLimit is the time that libvirtd has for its first answer.
const readyLimit = time.Minute

// Find starts libvirt, reads its capabilities, and ends it again.
func Find(ctx context.Context, l Libvirt, kvm bool) (contract.HostCapabilities, error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		stop()
		<-ended //nolint:errcheck // its context has ended
	}()
	select {
	case <-l.Ready():
	case err := <-ended:
		ended <- err
		if err == nil {
			err = ctx.Err()
		}
		return contract.HostCapabilities{}, fmt.Errorf("setting up libvirt: %w", err)
	case <-time.After(readyLimit):
		return contract.HostCapabilities{}, errors.New("libvirtd did not answer in time")
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
