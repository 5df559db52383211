package events

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// rig is a queue before an API server.
type rig struct {
	*Queue
	server   *kube.Server
	clients  kubernetes.Interface
	registry *prometheus.Registry
}

func newRig(t *testing.T) rig {
	t.Helper()
	server := kube.New(kube.Options{})
	clients, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	r := rig{server: server, clients: clients, registry: prometheus.NewRegistry()}
	r.Queue = NewQueue(clients.CoreV1(), zerolog.Nop(), r.registry)
	r.pauses = wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 100, Cap: 10 * time.Millisecond}
	return r
}

func event(i int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("vm.%d", i)},
		InvolvedObject: corev1.ObjectReference{Kind: "VirtualMachine", Namespace: "default", Name: "vm"},
		Reason:         "Started", Type: "Normal", Count: 1,
	}
}

func (r rig) there(t *testing.T) int {
	t.Helper()
	list, err := r.clients.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(list.Items)
}

// metrics are the values of what the queue shows, by result or name.
func (r rig) metrics(t *testing.T) map[string]int {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	out := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetGauge() != nil {
				out[f.GetName()] = int(m.GetGauge().GetValue())
			} else {
				out[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

func (r rig) results(t *testing.T, want map[string]int) {
	t.Helper()
	got := r.metrics(t)
	for _, result := range []string{written, dropped, refused} {
		require.Equal(t, want[result], got[result], result)
	}
	require.Zero(t, got["virtflow_events_queued"])
}

// onEvents decides what becomes of each request that writes an event.
func (r rig) onEvents(f func(n int) *kube.Fault) {
	var mu sync.Mutex
	n := 0
	r.server.Intercept(func(q kube.Request) *kube.Fault {
		if q.Resource != "events" || q.Verb != "create" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return f(n)
	})
}

func status(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason}
}

// TestNoEventIsLost: an API server that breaks connections, is overloaded, or loses its answers gets each event in the
// end, once.
func TestNoEventIsLost(t *testing.T) {
	r := newRig(t)
	faults := []*kube.Fault{
		nil,
		{Err: errors.New("connection refused")},
		{Status: status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		{Status: status(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{Err: errors.New("connection reset"), After: true},
	}
	r.onEvents(func(n int) *kube.Fault {
		if f := faults[n%len(faults)]; f == nil || f.Status == nil || n%25 < len(faults) { // errors of its own are rare
			return f
		}
		return nil
	})
	r.flush = time.Minute
	stop := r.Start()
	for i := range 1000 {
		r.Record(event(i))
		if i%10 == 0 {
			r.Record(event(i)) // the activity was repeated
		}
	}
	stop()
	require.Equal(t, 1000, r.there(t))
	r.results(t, map[string]int{written: 1100})
}

// TestRecordDoesNotBlock: an API server that does not answer delays no caller. What is too much is dropped, and
// counted.
func TestRecordDoesNotBlock(t *testing.T) {
	r := newRig(t)
	r.onEvents(func(int) *kube.Fault { return &kube.Fault{} }) // it hangs
	r.flush = 50 * time.Millisecond
	stop := r.Start()
	for i := range writers {
		r.Record(event(i))
	}
	require.Eventually(t, func() bool { return r.metrics(t)["virtflow_events_queued"] == 0 }, requestTime,
		time.Millisecond, "each writer has one in hand")
	begun := time.Now()
	for i := range capacity + 10 {
		r.Record(event(writers + i))
	}
	require.Less(t, time.Since(begun), requestTime, "a caller waited for an answer")
	got := r.metrics(t)
	require.GreaterOrEqual(t, got[dropped], 10)
	require.Equal(t, capacity+writers+10, got[dropped]+writers+got["virtflow_events_queued"])
	stop()
	r.results(t, map[string]int{dropped: capacity + writers + 10})
}

// TestAStoppingProcessWritesWhatWaits: what was recorded before the end is written, also what is tried again then.
func TestAStoppingProcessWritesWhatWaits(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.Record(event(i))
	}
	r.onEvents(func(n int) *kube.Fault {
		if n <= 20 {
			return &kube.Fault{Status: status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)}
		}
		return nil
	})
	r.Start()()
	require.Equal(t, 100, r.there(t))
	r.results(t, map[string]int{written: 100})
}

// TestRefusedEventDelaysNoOther: what the API server will never take is not tried again.
func TestRefusedEventDelaysNoOther(t *testing.T) {
	r := newRig(t)
	answers := []*metav1.Status{
		status(http.StatusForbidden, metav1.StatusReasonForbidden),
		status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
		status(http.StatusNotFound, metav1.StatusReasonNotFound),
	}
	r.onEvents(func(n int) *kube.Fault {
		if n <= len(answers) {
			return &kube.Fault{Status: answers[n-1]}
		}
		return nil
	})
	stop := r.Start()
	for i := range 10 {
		r.Record(event(i))
	}
	stop()
	require.Equal(t, 7, r.there(t))
	r.results(t, map[string]int{written: 7, refused: 3})
}

// TestAnErrorThatLastsEndsInRefusal: an error that lasts, such as that of a webhook which fails for one namespace, ends
// in a refusal, and the next event is written.
func TestAnErrorThatLastsEndsInRefusal(t *testing.T) {
	r := newRig(t)
	r.onEvents(func(n int) *kube.Fault {
		if n <= errorsTaken {
			return &kube.Fault{Status: status(http.StatusInternalServerError, metav1.StatusReasonInternalError)}
		}
		return nil
	})
	r.flush = time.Minute
	stop := r.Start()
	r.Record(event(0))
	require.Eventually(t, func() bool { return r.metrics(t)[refused] == 1 }, time.Minute, time.Millisecond)
	r.Record(event(1))
	stop()
	r.results(t, map[string]int{written: 1, refused: 1})
}
