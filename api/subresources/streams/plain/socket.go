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
	// Subprotocol is KubeVirt's: binary messages both ways, without a channel byte.
	Subprotocol = "plain.kubevirt.io"
	// handshakeTimeout and the size of the buffers are KubeVirt's.
	handshakeTimeout = 10 * time.Second
	socketBuffer     = 10 << 10
	// largestMessage is the largest message of a client, in bytes. It is not held in memory: KubeVirt's clients send 32
	// KiB at most.
	largestMessage = 16 << 20
	// farewell is the time that a client has to receive the close message.
	farewell = time.Second
)

// ErrClosing is the reason for the end of a stream when the server shuts down.
var ErrClosing = errors.New("this server is shutting down")

// Reasons for which this side ends a stream.
var (
	errText    = errors.New("text messages are not supported, only binary ones")
	errTooLong = errors.New("the message is longer than the largest datagram")
	errSilent  = errors.New("the client did not answer a ping")

	errNoWebSocket  = errors.New("this is a stream: the request must upgrade to a WebSocket")
	errOtherVersion = errors.New("only version 13 of the WebSocket protocol is supported")
	errNoKey        = errors.New("the header Sec-WebSocket-Key must be 16 bytes in base64")
)

// Socket is a client's WebSocket. Each method may be called once at a time.
type Socket struct {
	conn    *websocket.Conn
	silence time.Duration // after which a client that answers no ping counts as gone
	message io.Reader     // the message that is being read
}

// Asked returns what a request lacks to become a WebSocket, or nil. Callers with irreversible effects call it before
// them: Accept would find the same only afterwards.
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

// Accept opens the WebSocket. It has already answered the errors that it returns.
func Accept(w http.ResponseWriter, r *http.Request, silence time.Duration) (*Socket, error) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout, ReadBufferSize: socketBuffer, WriteBufferSize: socketBuffer,
		Subprotocols: []string{Subprotocol},
		// The caller has checked the origin.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the WebSocket: %w", err)
	}
	s := &Socket{conn: c, silence: silence}
	c.SetReadLimit(largestMessage)
	s.extendDeadline()
	c.SetPongHandler(func(string) error { s.extendDeadline(); return nil })
	return s, nil
}

// extendDeadline extends the client's read deadline.
func (s *Socket) extendDeadline() { _ = s.conn.SetReadDeadline(time.Now().Add(s.silence)) }

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
				// It waits for a write in progress. The reader gets the error.
				_ = s.conn.WriteControl(websocket.PingMessage, []byte("keep alive"), time.Now().Add(farewell))
			}
		}
	})
	return func() { close(end); done.Wait() }
}

// End sends the reason and closes. It is safe beside reads and writes, which then fail.
func (s *Socket) End(why error) {
	code, text := closeMessage(why)
	if code != 0 {
		_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text),
			time.Now().Add(farewell))
	}
	s.conn.Close()
}

// Drop closes the connection without a close message. It is safe beside reads and writes, which then fail.
func (s *Socket) Drop() { s.conn.Close() }

// closeMessage returns the close message for a client; 0 if there is none, or it was sent.
func closeMessage(why error) (code int, text string) {
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

// next begins the next message, and returns io.EOF when the client has closed the stream.
func (s *Socket) next() error {
	s.extendDeadline()
	kind, message, err := s.conn.NextReader()
	if err != nil {
		return s.closeError(err)
	}
	if kind != websocket.BinaryMessage {
		return errText
	}
	s.message = message
	return nil
}

// closeError returns the error of a read: io.EOF if the client has closed the connection or it was cut, errSilent if
// the client did not answer in time.
func (s *Socket) closeError(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway,
		websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure):
		return io.EOF // the last means that the connection was cut
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
		s.extendDeadline()
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
			return s.closeError(err)
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
		return err // an error of the node
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
			return s.closeError(err)
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
			return err
		}
		return write(func() error { return s.conn.WriteMessage(websocket.BinaryMessage, p[:n]) })
	}
}
