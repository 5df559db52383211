package events

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// capacity is how many events wait at most: those of some 2,500 starts, about 10 MB.
	capacity = 10000
	// writers is how many events are written at a time. One that the API server does not take holds up one of them.
	writers = 4
	// requestTime bounds one request.
	requestTime = 10 * time.Second
	// errorsTaken is how often the API server may answer with an error of its own: one that lasts, such as a failing
	// webhook's, must not keep a writer from the events of others.
	errorsTaken = 10
	// flushTime is for what still waits when the process ends. With the 20 s in which the worker finishes its work it
	// fits into the pod's grace period of 30 s.
	flushTime = 5 * time.Second
)

// Queue holds events until they are written. It is safe for concurrent use.
//
// client-go's recorder is not used: it gives generated names, so that a repeated activity records its event again; it
// drops events without a word when 1,000 wait, and while one is retried all others wait.
type Queue struct {
	client  typedcorev1.EventsGetter
	log     zerolog.Logger
	results *prometheus.CounterVec
	waiting chan *corev1.Event
	pauses  wait.Backoff
	flush   time.Duration
}

// What became of an event.
const (
	written = "written"
	dropped = "dropped" // the queue was full, or the process ended
	refused = "refused" // by the API server, and would be again
)

// NewQueue makes a queue. Nothing is written until it is started.
func NewQueue(client typedcorev1.EventsGetter, log zerolog.Logger, reg prometheus.Registerer) *Queue {
	q := &Queue{
		client: client, log: log, waiting: make(chan *corev1.Event, capacity), flush: flushTime,
		pauses: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32,
			Cap: 30 * time.Second},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_events_total",
			Help: "Kubernetes events by what became of them: written, dropped (too many waited, or the process " +
				"ended), refused (by the API server).",
		}, []string{"result"}),
	}
	for _, result := range []string{written, dropped, refused} {
		q.results.WithLabelValues(result)
	}
	reg.MustRegister(q.results, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_events_queued", Help: "Kubernetes events that wait to be written.",
	}, func() float64 { return float64(len(q.waiting)) }))
	return q
}

// Record has an event written soon. It never waits: when too many wait already, the event is dropped.
func (q *Queue) Record(e *corev1.Event) {
	select {
	case q.waiting <- e:
	default:
		q.done(e, dropped, errors.New("too many events wait to be written"))
	}
}

// Start has events written until stop is called. Stop writes what still waits, for a bounded time; nothing may be
// recorded after it.
func (q *Queue) Start() (stop func()) {
	life, end := context.WithCancel(context.Background())
	stopping := make(chan struct{})
	var all sync.WaitGroup
	for range writers {
		all.Go(func() { q.write(life, stopping) })
	}
	return func() {
		late := time.AfterFunc(q.flush, end)
		close(stopping)
		all.Wait()
		late.Stop()
		end()
	}
}

// write writes one event after the other until the process stops and none waits.
func (q *Queue) write(life context.Context, stopping <-chan struct{}) {
	for {
		select {
		case e := <-q.waiting:
			q.try(life, e)
		case <-stopping:
			if len(q.waiting) == 0 {
				return
			}
		}
	}
}

// try writes an event, as often as it takes.
func (q *Queue) try(life context.Context, e *corev1.Event) {
	pauses, internal := q.pauses, 0
	for {
		err := q.create(life, e)
		switch {
		case err == nil || apierrors.IsAlreadyExists(err): // an attempt before this one has written it
			q.done(e, written, nil)
			return
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
			apierrors.IsNotFound(err): // its namespace is gone, or goes
			q.done(e, refused, nil)
			return
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
			apierrors.IsRequestEntityTooLargeError(err):
			q.done(e, refused, err)
			return
		}
		if apierrors.IsInternalError(err) {
			if internal++; internal == errorsTaken {
				q.done(e, refused, err)
				return
			}
		}
		pause := time.NewTimer(pauses.Step())
		select {
		case <-life.Done():
			pause.Stop()
			q.done(e, dropped, err)
			return
		case <-pause.C:
		}
	}
}

func (q *Queue) create(life context.Context, e *corev1.Event) error {
	ctx, cancel := context.WithTimeout(life, requestTime)
	defer cancel()
	_, err := q.client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func (q *Queue) done(e *corev1.Event, result string, err error) {
	q.results.WithLabelValues(result).Inc()
	if err != nil {
		q.log.Warn().Err(err).Str("namespace", e.InvolvedObject.Namespace).Str("name", e.InvolvedObject.Name).
			Str("uid", string(e.InvolvedObject.UID)).Str("reason", e.Reason).Msg("failed to record event")
	}
}
