package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// Report is the status of a supervisor.
type Report struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Finishing is set once it was asked to finish: it then starts nothing any more.
	Finishing bool     `json:"finishing"`
	Processes []Status `json:"processes"`
}

// Serve answers at a Unix socket until ctx is done. Only the socket's owner can connect.
func (s *Supervisor) Serve(ctx context.Context, socket string) error {
	_ = os.Remove(socket) // of a supervisor that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen for orders: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return fmt.Errorf("protect the control socket: %w", err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listen for orders: %w", err)
	}
	return nil
}

func (s *Supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(
			Report{Version: s.options.Version, PID: os.Getpid(), Finishing: s.finishing.Load(),
				Processes: s.Statuses()})
	})
	mux.HandleFunc("POST /finish/{how}", func(_ http.ResponseWriter, r *http.Request) {
		s.Finish(r.PathValue("how") == "end")
	})
	send := func(signal syscall.Signal) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p, ok := s.find(r.PathValue("name"))
			if !ok {
				http.Error(w, "there is no such process", http.StatusNotFound)
				return
			}
			if !p.signal(signal) {
				http.Error(w, "it is not running", http.StatusConflict)
			}
		}
	}
	mux.HandleFunc("POST /kill/{name}", send(syscall.SIGKILL))
	for path, act := range map[string]func(*process){"restart": (*process).restart, "stop": (*process).halt,
		"start": (*process).resume} {
		mux.HandleFunc("POST /"+path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
			p, ok := s.find(r.PathValue("name"))
			if !ok {
				http.Error(w, "there is no such process", http.StatusNotFound)
				return
			}
			act(p)
		})
	}
	return mux
}

// restart ends the process with its grace; keep starts it again.
func (p *process) restart() {
	p.mu.Lock()
	h := p.live
	p.mu.Unlock()
	if h != nil {
		p.end(h)
	}
	p.skipBackoff()
}

// Client sends requests to a supervisor.
type Client struct{ http *http.Client }

// NewClient returns a client of the supervisor at a socket. It connects at each request.
func NewClient(socket string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Report returns the status of the supervisor and its processes.
func (c *Client) Report(ctx context.Context) (Report, error) {
	var r Report
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := c.do(ctx, http.MethodGet, "/")
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// Finish ends the supervisor: with end also its processes.
func (c *Client) Finish(ctx context.Context, end bool) error {
	how := "leave"
	if end {
		how = "end"
	}
	return c.post(ctx, "/finish/"+how)
}

// Kill sends the process SIGKILL.
func (c *Client) Kill(ctx context.Context, name string) error { return c.post(ctx, "/kill/"+name) }

// Restart ends the process and has it started again.
func (c *Client) Restart(ctx context.Context, name string) error {
	return c.post(ctx, "/restart/"+name)
}

// Stop ends the process and keeps it from being started again until Start.
func (c *Client) Stop(ctx context.Context, name string) error { return c.post(ctx, "/stop/"+name) }

// Start has a process started that was stopped.
func (c *Client) Start(ctx context.Context, name string) error { return c.post(ctx, "/start/"+name) }

func (c *Client) post(ctx context.Context, path string) error {
	resp, err := c.do(ctx, http.MethodPost, path)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c *Client) do(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		text := make([]byte, 200)
		n, _ := resp.Body.Read(text)
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the supervisor refuses: %s", strings.TrimSpace(string(text[:n])))
	}
	return resp, nil
}
