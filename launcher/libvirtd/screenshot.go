package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

const (
	// pngType is the format that libvirt returns if QEMU can write it (since 7.1).
	pngType = "image/png"
	// largestScreenshot exceeds the size of a PNG of 4096×4096 pixels, in bytes.
	largestScreenshot = 64 << 20
	screenshotPiece   = 64 << 10
)

// Screenshot writes a picture of the guest's first screen as PNG. It ends early with ctx, between two pieces.
func (l *Libvirt) Screenshot(ctx context.Context, to io.Writer) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	conn, err := d.DomainGetConnect()
	if err != nil {
		return fmt.Errorf("%w: %w", guest.ErrUnavailable, err)
	}
	defer conn.Close()
	stream, err := conn.NewStream(0)
	if err != nil {
		return fmt.Errorf("%w: %w", guest.ErrUnavailable, err)
	}
	defer stream.Free() //nolint:errcheck // a handle
	kind, err := d.Screenshot(stream, 0, 0)
	if err != nil {
		return fmt.Errorf("taking a screenshot: %w", err)
	}
	if err := copyScreenshot(ctx, to, stream, kind); err != nil {
		_ = stream.Abort()
		return err
	}
	if err := stream.Finish(); err != nil {
		return fmt.Errorf("taking a screenshot: %w", err)
	}
	return nil
}

func copyScreenshot(ctx context.Context, to io.Writer, stream *libvirt.Stream, kind string) error {
	if kind != pngType {
		return fmt.Errorf("taking a screenshot: this QEMU writes %s, not %s", kind, pngType)
	}
	buffer := make([]byte, screenshotPiece)
	for total := 0; ; {
		n, err := stream.Recv(buffer)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the screenshot: %w", err)
		case n < 0:
			return errors.New("reading the screenshot: the stream has holes")
		}
		if total += n; total > largestScreenshot {
			return fmt.Errorf("the screenshot has more than %d bytes", largestScreenshot)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return fmt.Errorf("sending the screenshot: %w", err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("sending the screenshot: %w", ctx.Err())
		}
	}
}
