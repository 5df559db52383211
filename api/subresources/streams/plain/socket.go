package plain

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/internal/streams/wire"
)

const (
	// Subprotocol is KubeVirt's: binary messages both ways, without a channel in front.
	Subprotocol = "plain.kubevirt.io"
	// handshakeTimeout and the size of the buffers are KubeVirt's.
	handshakeTimeout = 10 * time.Second
	socketBuffer     = 10 << 10
	// largestMessage is what a client may put into one message, in bytes. It is not held in memory: KubeVirt's clients
	// send 32 KiB at most.
	largestMessage = 16 << 20
	// farewell is how long a client may take for the last word.
	farewell = time.Second
)

// ErrClosing is the reason of a server that ends.
var ErrClosing = errors.New("this server is about to end")

// Why a stream is ended here.
var (
	errText    = errors.New("text messages are not understood here, only binary ones")
	errTooLong = errors.New("a message is longer than a datagram may be")
	errSilent  = errors.New("the client did not answer a ping")

	errNoWebSocket  = errors.New("this is a stream: ask to upgrade to a WebSocket")
	errOtherVersion = errors.New("only version 13 of the WebSocket protocol is understood here")
	errNoKey        = errors.New("the header Sec-WebSocket-Key has to be 16 bytes in base64")
)

// Socket is a client's WebSocket. Of each method one call at a time.
type Socket struct {
	conn    *websocket.Conn
	silence time.Duration // after which a client that answers no ping is gone
	message io.Reader     // that is being read
}

// Asked says what a request lacks to become a WebSocket, or nil. Whoever does something for a stream that cannot be
// undone asks first: Accept finds the same only after that.
func Asked(r *http.Request) error {
	header := r.Header
	key, err := base64.StdEncoding.DecodeString(header.Get("Sec-Websocket-Key"))
	switch {
	case r.Method != http.MethodGet || !websocket.IsWebSocketUpgrade(r):
		return errNoWebSocket
	case header.Get("Sec-Websocket-Version") != "13":
		return errOtherVersion
	case err != nil || len(key) != 16:
		return errNoKey
	}
	return nil
}

// Accept opens the WebSocket; errors are answered already.
func Accept(w http.ResponseWriter, r *http.Request, silence time.Duration) (*Socket, error) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout, ReadBufferSize: socketBuffer, WriteBufferSize: socketBuffer,
		Subprotocols: []string{Subprotocol},
		// Who asks is known by the front proxy, never by a cookie: the page that a browser shows has no part in it.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the WebSocket: %w", err)
	}
	s := &Socket{conn: c, silence: silence}
	c.SetReadLimit(largestMessage)
	s.alive()
	c.SetPongHandler(func(string) error { s.alive(); return nil })
	return s, nil
}

// alive puts the client's end off.
func (s *Socket) alive() { _ = s.conn.SetReadDeadline(time.Now().Add(s.silence)) }

// Ping pings the client until the returned function is called.
func (s *Socket) Ping(every time.Duration) (stop func()) {
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				// Whoever writes meanwhile is waited for; what goes wrong is seen by whoever reads.
				_ = s.conn.WriteControl(websocket.PingMessage, []byte("keep alive"), time.Now().Add(farewell))
			}
		}
	})
	return func() { close(end); done.Wait() }
}

// End says why and closes. It is safe beside reads and writes, which then fail.
func (s *Socket) End(why error) {
	code, text := closing(why)
	if code != 0 {
		_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text),
			time.Now().Add(farewell))
	}
	s.conn.Close()
}

// closing is the last word to a client; 0: there is nothing to say, or it was said.
func closing(why error) (code int, text string) {
	var said *websocket.CloseError
	switch {
	case why == nil:
		return websocket.CloseNormalClosure, ""
	case errors.Is(why, errText):
		return websocket.CloseUnsupportedData, why.Error()
	case errors.Is(why, errTooLong):
		return websocket.CloseMessageTooBig, why.Error()
	case errors.Is(why, ErrClosing):
		return websocket.CloseGoingAway, why.Error()
	case errors.Is(why, relay.ErrStalled), errors.Is(why, relay.ErrIdle):
		return websocket.ClosePolicyViolation, why.Error()
	case errors.Is(why, websocket.ErrReadLimit), errors.As(why, &said):
		return 0, "" // the library has answered
	}
	return websocket.CloseInternalServerErr, ""
}

// next begins the next message, and says io.EOF when the client has closed the stream.
func (s *Socket) next() error {
	s.alive()
	kind, message, err := s.conn.NextReader()
	if err != nil {
		return s.left(err)
	}
	if kind != websocket.BinaryMessage {
		return errText
	}
	s.message = message
	return nil
}

func (s *Socket) left(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway,
		websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure):
		return io.EOF // the last is a connection that was cut
	case errors.As(err, &timeout) && timeout.Timeout():
		return errSilent
	}
	return err
}

// BytesIn moves the client's bytes.
func (s *Socket) BytesIn(to io.Writer) relay.Mover {
	p := make([]byte, relay.Buffer)
	return func(write func(func() error) error) error {
		if s.message == nil {
			return s.next()
		}
		s.alive()
		n, err := s.message.Read(p)
		if n > 0 {
			if err := write(func() error { _, err := to.Write(p[:n]); return err }); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			s.message = nil
			return nil
		}
		if err != nil {
			return s.left(err)
		}
		return nil
	}
}

// BytesOut moves bytes to the client.
func (s *Socket) BytesOut(from io.Reader) relay.Mover {
	p := make([]byte, relay.Buffer)
	return func(write func(func() error) error) error {
		n, err := from.Read(p)
		if n > 0 {
			if err := write(func() error { return s.conn.WriteMessage(websocket.BinaryMessage, p[:n]) }); err != nil {
				return err
			}
		}
		return err //nolint:wrapcheck // what the node says
	}
}

// DatagramsIn moves the client's messages, each a datagram.
func (s *Socket) DatagramsIn(to io.Writer) relay.Mover {
	p := make([]byte, wire.MaxDatagram+1)
	return func(write func(func() error) error) error {
		if err := s.next(); err != nil {
			return err
		}
		n, err := io.ReadFull(s.message, p)
		switch {
		case err == nil:
			return errTooLong
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return s.left(err)
		}
		return write(func() error { return wire.WriteDatagram(to, p[:n]) })
	}
}

// DatagramsOut moves datagrams to the client, each a message.
func (s *Socket) DatagramsOut(from io.Reader) relay.Mover {
	p := make([]byte, wire.MaxDatagram)
	return func(write func(func() error) error) error {
		n, err := wire.ReadDatagram(from, p)
		if err != nil {
			return err //nolint:wrapcheck // says what it is
		}
		return write(func() error { return s.conn.WriteMessage(websocket.BinaryMessage, p[:n]) })
	}
}
