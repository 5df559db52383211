package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transport connects clients of the same process.
type transport struct{ s *Server }

// RoundTrip answers a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	q, err := t.s.parse(r)
	if err == nil && q.verb == "watch" {
		return t.watch(r, q)
	}
	status, body, err := t.s.answer(r, q, err)
	if err != nil {
		return nil, err
	}
	if err := r.Context().Err(); err != nil { // it took effect, and the client has cancelled
		return nil, err
	}
	return response(r, status, io.NopCloser(bytes.NewReader(body))), nil
}

func response(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

// watch answers with a stream that ends with the request's context, or when the client closes it.
func (t transport) watch(r *http.Request, q query) (*http.Response, error) {
	w, fault := t.s.startWatch(r, q)
	if fault != nil {
		status, body, err := fault.answer(r.Context())
		if err != nil {
			return nil, err
		}
		return response(r, status, io.NopCloser(bytes.NewReader(body))), nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	out, in := io.Pipe()
	go func() {
		defer cancel()
		in.CloseWithError(w.run(ctx, func(line []byte) error { _, err := in.Write(line); return err }))
	}()
	return response(r, http.StatusOK, closer{out, cancel}), nil
}

type closer struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends a watch.
func (c closer) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := s.parse(r)
	if err == nil && q.verb == "watch" {
		s.serveWatch(w, r, q)
		return
	}
	status, body, err := s.answer(r, q, err)
	if err != nil {
		panic(http.ErrAbortHandler) // this is how a handler breaks a connection
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, q query) {
	stream, fault := s.startWatch(r, q)
	w.Header().Set("Content-Type", "application/json")
	if fault != nil {
		status, body, err := fault.answer(r.Context())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
		return
	}
	flush := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = flush.Flush()
	_ = stream.run(r.Context(), func(line []byte) error {
		if _, err := w.Write(line); err != nil {
			return err
		}
		return flush.Flush()
	})
}

// answer carries out a request. An error means that there is no answer: the connection broke.
func (s *Server) answer(r *http.Request, q query, err error) (int, []byte, error) {
	if err != nil {
		return refuse(err)
	}
	fault := s.count(r, q)
	if fault != nil && !fault.After {
		return fault.answer(r.Context())
	}
	out, err := s.do(q)
	if fault != nil {
		return fault.answer(r.Context())
	}
	if err != nil {
		return refuse(err)
	}
	status := http.StatusOK
	if q.verb == "create" {
		status = http.StatusCreated
	}
	return encode(status, out)
}

// count records a request, and returns its fault.
func (s *Server) count(r *http.Request, q query) *Fault {
	request := q.request(r)
	s.mu.Lock()
	s.calls = append(s.calls, request.Call())
	intercept := s.intercept
	s.mu.Unlock()
	if intercept == nil {
		return nil
	}
	return intercept(request)
}

func (f *Fault) answer(ctx context.Context) (int, []byte, error) {
	switch {
	case f.Status != nil:
		status := *f.Status
		status.Kind, status.APIVersion = "Status", "v1"
		if status.Status == "" {
			status.Status = metav1.StatusFailure
		}
		return encode(int(status.Code), &status)
	case f.Err != nil:
		return 0, nil, f.Err
	default:
		<-ctx.Done()
		return 0, nil, ctx.Err()
	}
}

// refuse answers with an error's status, as the real server does for errors with a status.
func refuse(err error) (int, []byte, error) {
	var known apierrors.APIStatus
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return encode(int(status.Code), &status)
}

func encode(status int, out any) (int, []byte, error) {
	if o, ok := out.(*object); ok {
		return status, o.encode(), nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return 0, nil, err
	}
	return status, append(b, '\n'), nil
}
