package plain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/internal/streams/wire"
)

// node is the other end: it keeps what it receives, and sends one thing.
type node struct {
	mu   sync.Mutex
	got  bytes.Buffer
	end  chan struct{}
	once sync.Once
}

func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.got.Write(p)
}

func (n *node) Read([]byte) (int, error) { <-n.end; return 0, io.EOF }
func (n *node) Close()                   { n.once.Do(func() { close(n.end) }) }

// oneListener returns the connections of a pipe.
type oneListener chan net.Conn

func (l oneListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l oneListener) Close() error   { return nil }
func (l oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// FuzzFrames sends any bytes after the handshake of a WebSocket. The stream must end, and the node must have received
// what a strict reader finds in the binary messages before the first error.
func FuzzFrames(f *testing.F) {
	mask := []byte{1, 2, 3, 4}
	frame := func(first byte, payload string) []byte {
		out := append([]byte{first, 0x80 | byte(len(payload))}, mask...)
		for i := range len(payload) {
			out = append(out, payload[i]^mask[i%4])
		}
		return out
	}
	end := frame(0x88, "\x03\xe8")
	for _, seed := range [][]byte{
		nil, end, append(frame(0x82, "hello"), end...),
		append(append(frame(0x02, "he"), frame(0x80, "llo")...), end...),
		append(append(append(frame(0x02, "he"), frame(0x89, "ping")...), frame(0x80, "llo")...), end...),
		frame(0x81, "text"), {0x82, 0x01, 'a'}, {0xc2, 0x80, 0, 0, 0, 0}, {0x83, 0x80, 0, 0, 0, 0}, frame(0x80, "rest"),
		{0x89, 0xfe, 1, 0}, {0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0x82, 0xfe, 0, 1, 0, 0, 0, 0, 'a'}, frame(0x88, "\x03"), frame(0x88, "\x00\x01"),
		append(frame(0x8a, "pong"), frame(0x82, "")...),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, frames []byte, datagrams bool) {
		if len(frames) > 1<<16 {
			return
		}
		here, there := net.Pipe()
		listener := make(oneListener, 1)
		far := &node{end: make(chan struct{})}
		done := make(chan struct{})
		server := &http.Server{ReadHeaderTimeout: time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				s, err := Accept(w, r, 5*time.Second)
				if err != nil {
					return
				}
				in, out := s.BytesIn(far), s.BytesOut(far)
				if datagrams {
					in, out = s.DatagramsIn(far), s.DatagramsOut(far)
				}
				_ = relay.Run(context.Background(), relay.Bounds{
					StallTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second},
					func(why error) {
						far.Close()
						s.End(why)
					}, in, out)
			})}
		defer server.Close()
		listener <- there
		go func() { _ = server.Serve(listener) }()
		defer close(listener)
		request := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		for k, v := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": Subprotocol,
		} {
			request.Header.Set(k, v)
		}
		go func() {
			_ = request.Write(here)
			_, _ = here.Write(frames)
			_, _ = here.Write(frame(0x88, "\x03\xe8"))
			// The server has received everything by now. An announced frame that never arrives ends with the
			// connection.
			here.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		defer here.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the stream does not end")
		}
		if want, whole := strict(frames); whole && !datagrams {
			require.Equal(t, want, far.got.String())
		}
		if datagrams {
			// Whatever was sent, the node receives whole datagrams only.
			r, buffer := bytes.NewReader(far.got.Bytes()), make([]byte, wire.MaxDatagram)
			for {
				if _, err := wire.ReadDatagram(r, buffer); err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
		}
	})
}

// strict reads unfragmented binary messages with short payloads; the library's own tests cover the rest.
func strict(frames []byte) (payload string, whole bool) {
	for len(frames) > 0 {
		if len(frames) < 6 || frames[0] != 0x82 || frames[1] < 0x80 || frames[1] > 0x80+125 ||
			len(frames) < 6+int(frames[1]-0x80) {
			return "", false
		}
		n := int(frames[1] - 0x80)
		for i := range n {
			payload += string([]byte{frames[6+i] ^ frames[2+i%4]})
		}
		frames = frames[6+n:]
	}
	return payload, true
}

func TestCloseMessages(t *testing.T) {
	for _, c := range []struct {
		why  error
		code int
	}{
		{nil, websocket.CloseNormalClosure}, {errText, websocket.CloseUnsupportedData},
		{errTooLong, websocket.CloseMessageTooBig},
		{ErrClosing, websocket.CloseGoingAway}, {relay.ErrIdle, websocket.ClosePolicyViolation},
		{relay.ErrStalled, websocket.ClosePolicyViolation},
		{websocket.ErrReadLimit, 0}, {errors.New("anything"), websocket.CloseInternalServerErr},
	} {
		code, text := closeMessage(c.why)
		require.Equal(t, c.code, code)
		if c.code == websocket.CloseInternalServerErr {
			require.Empty(t, text, "what went wrong inside is nothing for a client")
		}
	}
}
