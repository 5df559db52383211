package migration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// played is a target that a test controls.
type played struct {
	fails error
	done  []string
	files []Content
}

func (p *played) Prepare(_ context.Context, files []Content) error {
	p.done, p.files = append(p.done, "prepare"), files
	return p.fails
}

func (p *played) Resume(_ context.Context, proof Proof) (contract.DomainObservation, error) {
	p.done = append(p.done, "resume by "+proof.By)
	return contract.DomainObservation{Reason: "resumed"}, p.fails
}

func (p *played) Withdraw(_ context.Context, why string) error {
	p.done = append(p.done, "withdraw: "+why)
	return p.fails
}

// controlled returns both ends of a control channel.
func controlled(t *testing.T, files []File, p *played) (c *Controller, over chan bool, ended chan error) {
	a, b := secured(t)
	over, ended = make(chan bool, 1), make(chan error, 1)
	go func() {
		o, err := Serve(t.Context(), b, files, p)
		over <- o
		ended <- err
	}()
	return NewController(a), over, ended
}

func TestControl(t *testing.T) {
	noLeaks(t)
	files := []Content{NewContent("cloudinit.iso", bytes.Repeat([]byte("CIDATA\n"), 100_000)), NewContent("empty", nil)}
	p := &played{}
	c, over, ended := controlled(t, []File{files[0].File, files[1].File}, p)
	require.NoError(t, c.Prepare(t.Context(), files))
	require.NoError(t, c.Prepare(t.Context(), files)) // again, as over another connection
	got, err := c.Resume(t.Context(), Proof{By: contract.ProofLibvirt, Paused: true})
	require.NoError(t, err)
	require.Equal(t, "resumed", got.Domain.Reason)
	c.Close()
	require.True(t, <-over)
	require.NoError(t, <-ended)
	require.Equal(t, []string{"prepare", "prepare", "resume by libvirt"}, p.done)
	require.Len(t, p.files, 2)
	require.True(t, bytes.Equal(files[0].Data, p.files[0].Data))
}

// TestControlThatIsNotOver: a source that disconnects without the answer that the guest runs, or that the launcher was
// ended, may connect again.
func TestControlThatIsNotOver(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct {
		fails error
		do    func(t *testing.T, c *Controller)
		over  bool
	}{
		"nothing":  {do: func(*testing.T, *Controller) {}},
		"prepared": {do: func(t *testing.T, c *Controller) { require.NoError(t, c.Prepare(t.Context(), nil)) }},
		"resumed": {over: true, do: func(t *testing.T, c *Controller) {
			_, err := c.Resume(t.Context(), Proof{By: contract.ProofProcess})
			require.NoError(t, err)
		}},
		"not resumed": {fails: errors.New("no"), do: func(t *testing.T, c *Controller) {
			_, err := c.Resume(t.Context(), Proof{By: contract.ProofProcess})
			require.ErrorContains(t, err, "no")
		}},
		"withdrawn": {over: true, do: func(t *testing.T, c *Controller) {
			require.NoError(t, c.Withdraw(t.Context(), "cancelled"))
		}},
		"not withdrawn": {fails: errors.New("no"), do: func(t *testing.T, c *Controller) {
			require.ErrorContains(t, c.Withdraw(t.Context(), "cancelled"), "no")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			control, over, ended := controlled(t, nil, &played{fails: c.fails})
			c.do(t, control)
			control.Close()
			require.Equal(t, c.over, <-over)
			require.NoError(t, <-ended)
		})
		if !c.over {
			continue
		}
		t.Run(name+", and then cut", func(t *testing.T) {
			control, over, ended := controlled(t, nil, &played{fails: c.fails})
			c.do(t, control)
			Cut(control.conn)
			require.False(t, <-over, "the source may not know")
			require.ErrorIs(t, <-ended, errCut)
		})
	}
}

// TestFilesThatAreRefused: the source gets the reason, although it may still be sending them.
func TestFilesThatAreRefused(t *testing.T) {
	noLeaks(t)
	iso := NewContent("cloudinit.iso", bytes.Repeat([]byte("x"), contract.LargestMigrationFile))
	other := NewContent("cloudinit.iso", bytes.Repeat([]byte("y"), contract.LargestMigrationFile))
	lied := Content{File: iso.File, Data: other.Data}
	for name, c := range map[string]struct {
		known []File
		sent  []Content
		fails error
		want  string
	}{
		"does not match the migration's digest": {known: []File{iso.File}, sent: []Content{other}, want: "not those"},
		"another than said":                     {known: []File{iso.File}, sent: []Content{lied}, want: "does not match the migration's digest"},
		"one too many":                          {known: []File{iso.File}, sent: []Content{iso, NewContent("b", nil)}, want: "not those"},
		"none":                                  {known: []File{iso.File}, want: "not those"},
		"many":                                  {sent: []Content{iso, iso, iso, iso, iso, iso, iso, iso}, want: "not those"},
		"by the launcher":                       {known: []File{iso.File}, sent: []Content{iso}, fails: errors.New("disk full"), want: "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &played{fails: c.fails}
			control, over, ended := controlled(t, c.known, p)
			err := control.Prepare(t.Context(), c.sent)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, c.want)
			control.Close()
			require.False(t, <-over)
			require.ErrorContains(t, <-ended, c.want)
			require.Equal(t, c.fails != nil, len(p.done) == 1)
		})
	}
}

// TestWithoutProof: the guest does not resume.
func TestWithoutProof(t *testing.T) {
	noLeaks(t)
	p := &played{}
	c, over, _ := controlled(t, nil, p)
	_, err := c.Resume(t.Context(), Proof{By: "hope"})
	require.ErrorContains(t, err, "no valid proof")
	_, err = c.ask(t.Context(), request{Kind: kindResume})
	require.ErrorContains(t, err, "no valid proof")
	_, err = c.ask(t.Context(), request{Kind: "reboot"})
	require.ErrorContains(t, err, "unknown request")
	c.Close()
	require.False(t, <-over)
	require.Empty(t, p.done)
}

// TestControlEndsWithItsContext: the control channel ends with the context of either end.
func TestControlEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	a, b := secured(t)
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := NewController(a).Resume(ctx, Proof{By: contract.ProofLibvirt}) // no side answers
	require.ErrorIs(t, err, context.Canceled)

	a, b = secured(t)
	defer a.Close()
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = Serve(ctx, b, nil, &played{}) // no side asks
	require.Error(t, err)
}

func TestCheckFiles(t *testing.T) {
	good := NewContent("cloudinit.iso", []byte("x")).File
	for want, f := range map[string]func(*File){
		"":                  func(*File) {},
		"not the name":      func(f *File) { f.Name = "a/b" },
		"the name":          func(f *File) { f.Name = ".." },
		"name of":           func(f *File) { f.Name = "" },
		"of a file":         func(f *File) { f.Name = strings.Repeat("n", 129) },
		"exceeds the limit": func(f *File) { f.Size = contract.LargestMigrationFile + 1 },
		"-1 bytes":          func(f *File) { f.Size = -1 },
		"has no digest":     func(f *File) { f.SHA256 = "" },
	} {
		bad := good
		f(&bad)
		if err := CheckFiles([]File{bad}); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	require.ErrorContains(t, CheckFiles([]File{good, good}), "twice")
	require.ErrorContains(t, CheckFiles(make([]File, contract.MostMigrationFiles+1)), "17 files")
}

// fixed is a connection with fixed input, which discards output.
type fixed struct {
	Stream
	io.Reader
}

func (f fixed) Read(p []byte) (int, error)     { return f.Reader.Read(p) }
func (fixed) Write(p []byte) (int, error)      { return len(p), nil }
func (fixed) CloseWrite() error                { return nil }
func (fixed) Close() error                     { return nil }
func (fixed) SetDeadline(time.Time) error      { return nil }
func (fixed) SetReadDeadline(time.Time) error  { return nil }
func (fixed) SetWriteDeadline(time.Time) error { return nil }
func (fixed) LocalAddr() net.Addr              { return nil }

// FuzzServe: whatever a source sends, the guest resumes only with a proof, and only known files arrive.
func FuzzServe(f *testing.F) {
	known := NewContent("a", []byte("data"))
	for _, seed := range []string{
		"", "\n", "{}\n", `{"kind":"resume","proof":{"by":"libvirt"}}` + "\n", `{"kind":"withdraw","why":"w"}` + "\n",
		`{"kind":"prepare","files":[{"name":"a","size":4,"sha256":"` + known.SHA256 + `"}]}` + "\ndata",
		`{"kind":"prepare","files":[{"name":"a","size":4,"sha256":"` + known.SHA256 + `"}]}` + "\ndat",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		p := &played{}
		over, err := Serve(t.Context(), fixed{Reader: bytes.NewReader(said)}, []File{known.File}, p)
		for _, done := range p.done {
			if strings.HasPrefix(done, "resume") && !bytes.Contains(said, []byte(done[len("resume by "):])) {
				t.Fatalf("it was resumed without a proof by %q", said)
			}
		}
		if over && (err != nil || len(p.done) == 0) {
			t.Fatalf("over by %q: %v", said, err)
		}
		for _, c := range p.files {
			if c.File != known.File || !bytes.Equal(c.Data, known.Data) {
				t.Fatalf("unknown files: %v", c)
			}
		}
	})
}
