package podnet

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDialGuest: a port of the guest from the node, by way of the pod's network namespace, which nothing outside of the
// pod has to route to.
func TestDialGuest(t *testing.T) {
	pod := newPod(t)
	plan := masqueraded(t)
	_, err := plan.Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := namespace(t)
	pod.attachGuest(t, guest)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()

	l := listen(t, guest, "0.0.0.0:8080")
	defer l.Close()
	peer := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(peer)
			return
		}
		defer c.Close()
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		peer <- host
		_, _ = io.Copy(c, c)
	}()
	c, err := plan.DialGuest(ctx, pod.Pod, nil, "tcp", 8080)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, "10.0.2.1", <-peer)
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	b := make([]byte, 5)
	_, err = io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))

	_, err = plan.DialGuest(ctx, pod.Pod, nil, "tcp", 8081)
	require.EqualError(t, err, "dialing VM: dial tcp 10.0.2.2:8081: connect: connection refused")

	var packets net.PacketConn
	require.NoError(t, inNamespace(guest, func() (err error) {
		packets, err = net.ListenPacket("udp", "0.0.0.0:5353")
		return err
	}))
	defer packets.Close()
	u, err := plan.DialGuest(ctx, pod.Pod, nil, "udp", 5353)
	require.NoError(t, err)
	defer u.Close()
	_, err = u.Write([]byte("ask"))
	require.NoError(t, err)
	require.NoError(t, packets.SetReadDeadline(time.Now().Add(deadline)))
	n, _, err := packets.ReadFrom(b)
	require.NoError(t, err)
	require.Equal(t, "ask", string(b[:n]))
}

func TestDialGuestNeverInTheNodesNetwork(t *testing.T) {
	own, err := os.Open("/proc/self/ns/net")
	require.NoError(t, err)
	defer own.Close()
	_, err = masqueraded(t).DialGuest(context.Background(), Pod{NetworkNamespace: own}, own, "tcp", 22)
	require.ErrorContains(t, err, "node's own network namespace")
}
