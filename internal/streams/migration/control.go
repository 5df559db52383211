package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// maxMessage is far above what is said, a domain's observation being the longest; in bytes.
const maxMessage = 256 << 10

// What the source says on the channel Control. Each request is a line of JSON, and is answered by one. The files'
// bytes follow the request that announces them.
const (
	kindPrepare  = "prepare"
	kindResume   = "resume"
	kindWithdraw = "withdraw"
)

type request struct {
	Kind  string `json:"kind"`
	Files []File `json:"files,omitempty"`
	Proof *Proof `json:"proof,omitempty"`
	Why   string `json:"why,omitempty"`
}

type answer struct {
	Error   string   `json:"error,omitempty"`
	Resumed *Resumed `json:"resumed,omitempty"`
}

// Proof is the source's: see contract.MigrationProof.
type Proof = contract.MigrationProof

func valid(p *Proof) bool {
	return p != nil && (p.By == contract.ProofProcess || p.By == contract.ProofLibvirt)
}

// Resumed is the target's answer when the guest goes on there.
type Resumed struct {
	Domain contract.DomainObservation `json:"domain"`
	// Took is how long that took at the target. With the time from question to answer the source knows by its own clock
	// when the guest went on.
	Took time.Duration `json:"took"`
}

// Controller is the source's end of the channel Control. Its calls are made one after the other. When one fails with
// anything but a RefusedError the connection is spent, and whether the target has done it is not known: each may be
// asked again over another connection.
type Controller struct{ conn Stream }

// NewController speaks over a connection that it closes.
func NewController(conn Stream) *Controller { return &Controller{conn: conn} }

// Close says that nothing more is coming. After Resume or Withdraw it lets the target forget the migration.
func (c *Controller) Close() {
	_ = c.conn.SetDeadline(time.Now().Add(openTimeout))
	if c.conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c.conn) // until the target closes as well
	}
	c.conn.Close()
}

// Prepare sends the files and returns when the target's launcher is ready to receive the guest.
func (c *Controller) Prepare(ctx context.Context, files []Content) error {
	r := request{Kind: kindPrepare}
	var data [][]byte
	for _, f := range files {
		r.Files = append(r.Files, f.File)
		data = append(data, f.Data)
	}
	_, err := c.ask(ctx, r, data...)
	return err
}

// Resume lets the guest go on at the target.
func (c *Controller) Resume(ctx context.Context, p Proof) (Resumed, error) {
	a, err := c.ask(ctx, request{Kind: kindResume, Proof: &p})
	if err != nil {
		return Resumed{}, err
	}
	if a.Resumed == nil {
		return Resumed{}, errors.New("the target's node worker does not say how the guest is")
	}
	return *a.Resumed, nil
}

// Withdraw has the target end its launcher: the guest stays where it is.
func (c *Controller) Withdraw(ctx context.Context, why string) error {
	_, err := c.ask(ctx, request{Kind: kindWithdraw, Why: why})
	return err
}

func (c *Controller) ask(ctx context.Context, r request, data ...[]byte) (a answer, err error) {
	stop := context.AfterFunc(ctx, func() { Cut(c.conn) })
	defer func() {
		if !stop() && err != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		var refused *RefusedError
		if err != nil && !errors.As(err, &refused) {
			err = fmt.Errorf("asking the target's node worker to %s: %w", r.Kind, err)
		}
	}()
	if err = writeJSON(c.conn, r); err != nil {
		return a, err
	}
	for _, d := range data {
		if _, err = c.conn.Write(d); err != nil {
			return a, err //nolint:wrapcheck // above
		}
	}
	if err = readJSON(c.conn, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, &RefusedError{Message: clean(a.Error)}
	}
	return a, nil
}

// Target does what the source asks for. Each may be asked again after an answer was lost. What only has to be waited
// for is waited for here: an error is an answer.
type Target interface {
	// Prepare makes the launcher ready to receive the guest.
	Prepare(ctx context.Context, files []Content) error
	// Resume lets the guest go on, and returns the domain as it then is.
	Resume(ctx context.Context, p Proof) (contract.DomainObservation, error)
	// Withdraw ends the launcher.
	Withdraw(ctx context.Context, why string) error
}

// Serve is the target's end of the channel Control, until the source ends it or ctx does; it closes conn. over says
// that the target has nothing more to wait for: the guest goes on here, or the launcher was ended, and the source has
// heard it.
func Serve(ctx context.Context, conn Stream, files []File, t Target) (over bool, err error) {
	stop := context.AfterFunc(ctx, func() { Cut(conn) })
	defer stop()
	defer conn.Close()
	for {
		var r request
		switch err := readJSON(conn, &r); {
		case errors.Is(err, io.EOF):
			return over, nil
		case err != nil:
			return false, err
		}
		a, done, err := do(ctx, conn, r, files, t)
		if err != nil {
			a = answer{Error: clean(err.Error())}
		}
		over = over || done
		if err := writeJSON(conn, a); err != nil {
			return false, err
		}
		if err != nil && r.Kind == kindPrepare {
			// The files' bytes may still come, and no request can be told from them. They are read so that the answer
			// is not lost: a connection that is closed before is reset.
			_ = conn.CloseWrite()
			_ = conn.SetDeadline(time.Now().Add(openTimeout))
			_, _ = io.Copy(io.Discard, conn)
			return false, err
		}
	}
}

func do(ctx context.Context, conn net.Conn, r request, files []File, t Target) (a answer, done bool, err error) {
	switch r.Kind {
	case kindPrepare:
		received, err := receive(conn, r.Files, files)
		if err != nil {
			return a, false, err
		}
		return a, false, t.Prepare(ctx, received)
	case kindResume:
		if !valid(r.Proof) {
			return a, false, errors.New("that is no proof that the guest has left the source")
		}
		begun := time.Now()
		domain, err := t.Resume(ctx, *r.Proof)
		if err != nil {
			return a, false, err
		}
		return answer{Resumed: &Resumed{Domain: domain, Took: time.Since(begun)}}, true, nil
	case kindWithdraw:
		err := t.Withdraw(ctx, clean(r.Why))
		return a, err == nil, err
	}
	return a, false, fmt.Errorf("there is no request %q", clean(r.Kind))
}

func writeJSON(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding for another node worker: %w", err)
	}
	return writeLine(w, string(line))
}

// readJSON decodes a line; io.EOF is the end of the stream.
func readJSON(r io.Reader, v any) error {
	line, err := readLine(r, maxMessage)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), v); err != nil {
		return fmt.Errorf("decoding what another node worker says: %w", err)
	}
	return nil
}
