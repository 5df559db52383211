package admission

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	virtadmission "github.com/virtflow/virtflow/api/admission"
)

const jsonType = "application/json"

// refusedReview posts a review that must be refused, and returns the code and message.
func refusedReview(t *testing.T, e *Endpoint, path, contentType string, body io.Reader) (int32, string) {
	t.Helper()
	status, raw, err := e.Post(path, contentType, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	var r admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(raw, &r), "%s", raw)
	require.NotNil(t, r.Response)
	require.False(t, r.Response.Allowed)
	return r.Response.Result.Code, r.Response.Result.Message
}

func TestBadRequests(t *testing.T) {
	e := Start(t, newCluster())
	for name, c := range map[string]struct {
		contentType, body string
		code              int32
		message           string
	}{
		"not JSON":             {jsonType, `{`, 400, "unexpected end of JSON input"},
		"nothing":              {jsonType, ``, 400, "request body is empty"},
		"another content type": {"text/yaml", `{}`, 400, "contentType=text/yaml, expected application/json"},
		"another version": {jsonType,
			`{"apiVersion": "admission.k8s.io/v9", "kind": "AdmissionReview", "request": {}}`, 400,
			"expect resource to be 'virtualmachines'"},
		"another kind": {jsonType, `{"apiVersion": "v1", "kind": "Pod"}`, 400,
			"expect resource to be 'virtualmachines'"},
		"no resource": {jsonType,
			`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}`, 400,
			"expect resource to be 'virtualmachines'"},
		"no object": {
			jsonType, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", ` +
				`"resource": {"group": "kubevirt.io", "version": "v1", "resource": "virtualmachines"}}}`,
			400, "unexpected end of JSON input",
		},
		"a version of the resource that there is not": {
			jsonType, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", ` +
				`"resource": {"group": "kubevirt.io", "version": "v7", "resource": "virtualmachines"}, "object": {}}}`,
			400, "expect resource to be 'virtualmachines'",
		},
		"deep nesting": {
			jsonType, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", ` +
				`"object": ` + strings.Repeat("[", 50_000) + `}}`,
			400, "exceeded max depth",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, message := refusedReview(t, e, virtadmission.PathValidateVM, c.contentType, strings.NewReader(c.body))
			require.Equal(t, c.code, code)
			require.Contains(t, message, c.message)
		})
	}
	healthy(t, e)
}

// healthy posts a plain review, which must be answered whatever came before.
func healthy(t *testing.T, e *Endpoint) {
	t.Helper()
	records, err := specCase{name: "plain", spec: `{}`, only: "vmirs"}.records()
	require.NoError(t, err)
	a, err := e.Ask(records[0].Path, records[0].Request)
	require.NoError(t, err)
	require.NotNil(t, a)
}

// TestSlowClientsDoNotDelayAPIServer: other clients send bodies without an end, or slowly.
func TestSlowClientsDoNotDelayAPIServer(t *testing.T) {
	e := Start(t, newCluster())
	transport := e.Client.Transport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	other := &http.Client{Timeout: askTime, Transport: transport}
	unblock := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(unblock)
	sent := make(chan struct{}, 40)
	for range cap(sent) {
		all.Go(func() {
			// Seven million blanks, and then nothing. The answer does not matter: the connection may be closed.
			body := io.MultiReader(io.LimitReader(endless{}, 7_000_000), &stalled{sent: sent, until: unblock})
			_, _, _ = post(other, e.url+virtadmission.PathMutateVM, jsonType, body)
		})
	}
	<-sent // at least one client has sent all of that
	for range 20 {
		healthy(t, e)
	}
}

// stalled is the rest of a body that does not arrive.
type stalled struct {
	once  sync.Once
	sent  chan<- struct{}
	until <-chan struct{}
}

func (s *stalled) Read([]byte) (int, error) {
	s.once.Do(func() { s.sent <- struct{}{} })
	<-s.until
	return 0, io.EOF
}

func TestEndlessBody(t *testing.T) {
	e := Start(t, newCluster())
	code, message := refusedReview(t, e, virtadmission.PathMutateVM, jsonType, io.LimitReader(endless{}, 64<<20))
	require.EqualValues(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, message, "too large")
	healthy(t, e)
}

// endless is a body of blanks.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestVeryManyDevices: as many as fit into a body are refused in bounded time and memory, with ten reasons.
func TestVeryManyDevices(t *testing.T) {
	e := Start(t, newCluster())
	const parts, items, reasons = "the object has more than 100000 parts", "should have at most 1000 items",
		"and [0-9]{3,4} more validation errors"
	for name, c := range map[string]struct {
		device  string
		most    int
		message string
	}{
		"a million":         {`"disks": [%s]|1`, 1_000_000, "the review has more than 200000 parts"},
		"numbers":           {`"disks": [%s]|1`, 150_000, parts},
		"disks":             {`"disks": [%s]|{"name":"a"}`, 60_000, parts},
		"fewer":             {`"disks": [%s]|{"name":"%d"}`, 45_000, items},
		"as many as may be": {`"disks": [%s]|{"name":"a"}`, 1000, reasons},
		"interfaces":        {`"interfaces": [%s]|{"name":"a"}`, 1000, reasons},
		"GPUs":              {`"gpus": [%s]|{"name":"a"}`, 1000, reasons},
	} {
		t.Run(name, func(t *testing.T) {
			device, message := c.device, c.message
			field, one, _ := strings.Cut(device, "|")
			var list strings.Builder
			for i := range c.most {
				if i > 0 {
					list.WriteByte(',')
				}
				if strings.Contains(one, "%d") {
					fmt.Fprintf(&list, one, i)
				} else {
					list.WriteString(one)
				}
			}
			object := `{"metadata": {"name": "a"}, "spec": {"architecture": "amd64", "domain": {"devices": {` +
				fmt.Sprintf(field, list.String()) + `}}}}`
			review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1",
				"operation": "%s", "resource": {"group": "kubevirt.io", "version": "v1", "resource": "virtualmachineinstances"},
				"object": %s, "oldObject": %s}}`
			ask := func(operation, object, old string) (int, []byte) {
				code, raw, err := e.Post(virtadmission.PathValidateVMI, jsonType,
					strings.NewReader(fmt.Sprintf(review, operation, object, old)))
				require.NoError(t, err)
				return code, raw
			}
			code, raw := ask("CREATE", object, "null")
			codeOld, rawOld := ask("UPDATE", "{}", object)
			if c.most == 1_000_000 {
				require.Equal(t, http.StatusRequestEntityTooLarge, code)
				require.Equal(t, message, strings.TrimSpace(string(raw)))
				require.Equal(t, code, codeOld)
				return
			}
			require.Equal(t, message == parts, strings.Contains(string(rawOld), parts), "%.200s", rawOld)
			var r admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(raw, &r), "%.200s", raw)
			require.False(t, r.Response.Allowed)
			require.Regexp(t, message, r.Response.Result.Message)
			require.Less(t, len(raw), 64<<10)
		})
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(100<<20), "no memory is retained")
	healthy(t, e)
}

// TestClosesSlowRequest: a client that never ends its request loses its connection, and others do not wait.
func TestClosesSlowRequest(t *testing.T) {
	e := Start(t, newCluster())
	transport := e.Client.Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.url, "https://"), config)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{",
		virtadmission.PathMutateVM, jsonType)
	require.NoError(t, err)
	healthy(t, e)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err, "the server ends it")
	require.Contains(t, string(answer), "timeout")
}

// FuzzReview posts arbitrary bodies: each must be answered with a valid AdmissionReview or a status.
func FuzzReview(f *testing.F) {
	records, err := Cases()
	if err != nil {
		f.Fatal(err)
	}
	for i, r := range records {
		if i%5 == 0 || r.Webhook == "mutating" {
			f.Add([]byte(r.Request))
		}
	}
	for _, seed := range []string{``, `null`, `[]`, `{"request": null}`, `{"request": {"object": null}}`,
		`{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}`} {
		f.Add([]byte(seed))
	}
	handlers := virtadmission.Handlers(newCluster())
	f.Fuzz(func(t *testing.T, body []byte) {
		for path, h := range handlers {
			w := &answerRecorder{header: http.Header{}}
			r, err := http.NewRequest(http.MethodPost, path, bytes.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", jsonType)
			h.ServeHTTP(w, r)
			var review admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.body.Bytes(), &review), "%s", path)
			require.NotNil(t, review.Response, "%s", path)
			if result := review.Response.Result; result != nil {
				require.NotContains(t, result.Message, "[recovered]", "%s", path)
			}
		}
	})
}

type answerRecorder struct {
	header http.Header
	body   bytes.Buffer
}

func (a *answerRecorder) Header() http.Header         { return a.header }
func (a *answerRecorder) Write(p []byte) (int, error) { return a.body.Write(p) }
func (a *answerRecorder) WriteHeader(int)             {}
