package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// maxMessage is far above the size of any message, of which a domain's observation is the longest; in bytes.
const maxMessage = 256 << 10

// Requests of the source on the channel Control. Each is a line of JSON, and is answered by one. The files' content
// follows the request that announces them.
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

// Proof is the source's proof: see contract.MigrationProof.
type Proof = contract.MigrationProof

// isValidProof reports whether a proof has a kind that proves that the guest has left the source.
func isValidProof(p *Proof) bool {
	return p != nil && (p.By == contract.ProofProcess || p.By == contract.ProofLibvirt)
}

// Resumed is the target's answer when the guest runs there.
type Resumed struct {
	Domain contract.DomainObservation `json:"domain"`
	// Took is how long the resumption took at the target. With the time from request to answer, the source can compute
	// by its own clock when the guest resumed.
	Took time.Duration `json:"took"`
}

// Controller is the source's end of the channel Control. It is not safe for concurrent use. When a call fails with
// anything but a RefusedError, the connection is closed and the outcome unknown: each call may be repeated over another
// connection.
type Controller struct{ conn Stream }

// NewController returns a Controller that uses, and closes, the connection.
func NewController(conn Stream) *Controller { return &Controller{conn: conn} }

// Close ends the requests. After Resume or Withdraw the target may then forget the migration.
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

// Resume has the target resume the guest.
func (c *Controller) Resume(ctx context.Context, p Proof) (Resumed, error) {
	a, err := c.ask(ctx, request{Kind: kindResume, Proof: &p})
	if err != nil {
		return Resumed{}, err
	}
	if a.Resumed == nil {
		return Resumed{}, errors.New("the target's node worker returned no state of the guest")
	}
	return *a.Resumed, nil
}

// Withdraw has the target end its launcher: the guest stays at its source.
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
			return a, err
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

// Target carries out the source's requests. Each may be repeated after an answer was lost. Its methods wait where
// waiting suffices: an error is an answer.
type Target interface {
	// Prepare prepares the launcher to receive the guest.
	Prepare(ctx context.Context, files []Content) error
	// Resume resumes the guest, and returns the domain as it then is.
	Resume(ctx context.Context, p Proof) (contract.DomainObservation, error)
	// Withdraw ends the launcher.
	Withdraw(ctx context.Context, why string) error
}

// Serve is the target's end of the channel Control, until the source or ctx ends it; it closes conn. over means that
// the target has nothing more to wait for: the guest runs there, or the launcher was ended, and the source has received
// that answer.
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
		a, done, err := handle(ctx, conn, r, files, t)
		if err != nil {
			a = answer{Error: clean(err.Error())}
		}
		over = over || done
		if err := writeJSON(conn, a); err != nil {
			return false, err
		}
		if err != nil && r.Kind == kindPrepare {
			// The files' content may still arrive, and cannot be distinguished from requests. It is read so that the
			// answer is not lost: a connection that is closed before is reset.
			_ = conn.CloseWrite()
			_ = conn.SetDeadline(time.Now().Add(openTimeout))
			_, _ = io.Copy(io.Discard, conn)
			return false, err
		}
	}
}

// handle carries out one request of the source at the target; done: it was the last one of the migration.
func handle(ctx context.Context, conn net.Conn, r request, files []File, t Target) (a answer, done bool, err error) {
	switch r.Kind {
	case kindPrepare:
		received, err := receive(conn, r.Files, files)
		if err != nil {
			return a, false, err
		}
		return a, false, t.Prepare(ctx, received)
	case kindResume:
		if !isValidProof(r.Proof) {
			return a, false, errors.New("the request has no valid proof that the guest has left the source")
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
	return a, false, fmt.Errorf("unknown request %q", clean(r.Kind))
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
		return fmt.Errorf("decoding a message of another node worker: %w", err)
	}
	return nil
}
