package launchers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// connectTimeout is how long a launcher may take to accept a connection on its own node.
	connectTimeout = 5 * time.Second
	// maxMessage and maxHeaders are what a launcher may make the node worker hold in memory at once, in bytes.
	maxMessage = 1 << 20
	maxHeaders = 16 << 10
	// window is how much a launcher may send ahead of the reader, in bytes.
	window = 256 << 10
)

var errSpent = errors.New("the connection to the launcher has ended")

// Dialer connects to launchers.
type Dialer struct {
	// KubeletDir is the kubelet's directory on this node, usually /var/lib/kubelet.
	KubeletDir string
	// ProcDir is where the node's processes are seen, usually /proc.
	ProcDir string
}

// Connect connects to the launcher of a pod. The error is ErrAbsent if there is no socket or no process serves it. The
// launcher is good for one connection: when that breaks, every call fails, and the caller connects (and checks) again.
func (d Dialer) Connect(ctx context.Context, uid string) (*Launcher, error) {
	conn, peer, err := d.dial(ctx, uid, serviceSocket)
	if err != nil {
		return nil, err
	}
	l, err := newLauncher(conn, peer, uid)
	if err != nil {
		conn.Close()
		peer.Close()
		return nil, err
	}
	return l, nil
}

// dial connects to a socket of that name that the launcher of a pod serves.
func (d Dialer) dial(ctx context.Context, uid, name string) (*net.UnixConn, *Peer, error) {
	socket, err := openSocket(d.KubeletDir, uid, name)
	if err != nil {
		return nil, nil, err
	}
	defer socket.Close()
	// The path is too long for sockaddr_un (108 bytes), and this way leads to the very file that has been looked at.
	dialer := net.Dialer{Timeout: connectTimeout}
	c, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", socket.Fd()))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: connecting to the launcher of pod %s: %w", ErrAbsent, uid, err)
	}
	conn := c.(*net.UnixConn)
	peer, err := newPeer(conn, d.ProcDir, uid)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, peer, nil
}

func newLauncher(conn net.Conn, peer *Peer, uid string) (*Launcher, error) {
	var used atomic.Bool
	cc, err := grpc.NewClient("passthrough:///launcher",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errSpent
			}
			return conn, nil
		}),
		grpc.WithAuthority("launcher"),
		grpc.WithUserAgent("virtflow-node-worker"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("speaking to the launcher of pod %s: %w", uid, err)
	}
	return &Launcher{Peer: peer, uid: uid, conn: conn, cc: cc, rpc: rpc.NewLauncherClient(cc)}, nil
}
