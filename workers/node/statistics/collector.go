package statistics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// answerTimeout is how long the launchers of a scrape may take together. KubeVirt's whole scrape may take 10 s.
	answerTimeout = 4 * time.Second
	// sharedFor is how long the answers are used for further scrapes: any pod may scrape.
	sharedFor = time.Second
	// shortTimeout is how long a launcher may take for a guest that has timed out in the last shortFor: a guest that
	// hangs for hours would otherwise have each scrape take answerTimeout.
	shortTimeout = 250 * time.Millisecond
	shortFor     = 5 * time.Minute
	// logEvery is the shortest time between two lines of the log about one guest.
	logEvery = time.Hour
)

// Options configures a Collector.
type Options struct {
	Log zerolog.Logger
	// Node is the name of the Kubernetes node.
	Node string
	// Guests returns the guests of the node with the connections to their launchers.
	Guests func() []forward.Guest
	// Machine returns what Kubernetes has given the pod of that UID about its VMI.
	Machine func(pod string) (launchers.Machine, error)
	// Timeout bounds the launchers' answers; 0: 4 s.
	Timeout time.Duration
	// SharedFor is how long the answers are used for further scrapes; 0: 1 s; negative: for none.
	SharedFor time.Duration
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Collector has the metrics of the guests of a node. It is safe for concurrent use.
type Collector struct {
	Options
	results *prometheus.CounterVec
	dropped prometheus.Counter // file systems
	kinds   []metric

	// turn has an element while a scrape is in progress, which may use the following.
	turn  chan struct{}
	known map[string]*known
	slow  map[string]time.Time // until when the launchers of these pods get shortTimeout
	// logged is when a failure of each pod was last logged.
	logged map[string]time.Time
	last   []prometheus.Metric
	until  time.Time // when last is too old
}

// New returns a Collector.
func New(o Options) *Collector {
	if o.Timeout == 0 {
		o.Timeout = answerTimeout
	}
	if o.SharedFor == 0 {
		o.SharedFor = sharedFor
	}
	c := &Collector{Options: o, kinds: metrics(), turn: make(chan struct{}, 1),
		known: map[string]*known{}, slow: map[string]time.Time{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_node_guest_scrapes_total",
			Help: "Guests that scrapes asked for statistics, by result.",
		}, []string{"result"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtflow_node_guest_file_systems_dropped_total",
			Help: "File systems that scrapes left out, as a guest has shown too many others in the last hour.",
		}),
	}
	if o.Registry != nil {
		o.Registry.MustRegister(c, c.results, c.dropped)
	}
	return c
}

// Describe implements prometheus.Collector. The labels of VMIs are not among the labels.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.kinds {
		out <- prometheus.NewDesc(prefix+m.name, m.help, append(vmiLabels(), m.labels...), nil)
	}
}

// Collect implements prometheus.Collector. It takes no longer than the launchers may take for two scrapes: one that is
// in progress, and its own if the answers are too old to be shared by then. Calls that wait at the same time share one.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.turn <- struct{}{}
	if !time.Now().Before(c.until) {
		c.last = c.scrape()
		c.until = time.Now().Add(c.SharedFor)
		time.AfterFunc(c.SharedFor, c.forget)
	}
	all := c.last
	<-c.turn
	for _, m := range all {
		out <- m
	}
}

// forget releases the metrics of a scrape that is too old to be shared.
func (c *Collector) forget() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if !time.Now().Before(c.until) {
		c.last = nil
	}
}

// answer is the outcome of asking one launcher.
type answer struct {
	guest      forward.Guest
	statistics *rpc.StatisticsResponse // nil: there is none
	err        error
}

// scrape asks all launchers, and returns the metrics of those that answer in time.
func (c *Collector) scrape() []prometheus.Metric {
	guests := c.Guests()
	// Of two pods with guests of one name, the one recorded last has the current guest.
	slices.SortFunc(guests, func(a, b forward.Guest) int {
		return cmp.Or(cmp.Compare(b.Order, a.Order), cmp.Compare(a.Pod, b.Pod))
	})
	var out []prometheus.Metric
	type name struct{ namespace, name string }
	shown, current, slow := map[name]bool{}, map[string]*known{}, map[string]time.Time{}
	logged := map[string]time.Time{}
	for _, a := range c.ask(guests) {
		if until, isSlow := c.nextSlow(a); isSlow {
			slow[a.guest.Pod] = until
		}
		k, err := c.knownOf(a.guest)
		if k != nil {
			current[a.guest.Pod] = k
		}
		if a.err == nil {
			a.err = err
		}
		c.results.WithLabelValues(result(a.err)).Inc()
		if at := c.logFailure(a); !at.IsZero() {
			logged[a.guest.Pod] = at
		}
		// A VMI has one running guest. A launcher that claims to have it as well must not spoil the whole scrape.
		if this := (name{a.guest.VMI.Namespace, a.guest.VMI.Name}); a.err == nil && !isRepeated(shown, this) {
			metrics, dropped := k.emit(a.statistics, c.kinds)
			out = append(out, metrics...)
			c.dropped.Add(float64(dropped))
		}
	}
	c.known, c.slow, c.logged = current, slow, logged
	return out
}

// logFailure logs why the statistics of a guest could not be read, once in logEvery, since a launcher may fail and
// succeed in turn. It returns when a failure of the pod was last logged.
func (c *Collector) logFailure(a answer) time.Time {
	last, now := c.logged[a.guest.Pod], time.Now()
	if result(a.err) == resultFailed && now.Sub(last) >= logEvery {
		last = now
		c.Log.Warn().Err(a.err).Str("namespace", a.guest.VMI.Namespace).Str("name", a.guest.VMI.Name).
			Str("uid", a.guest.VMI.UID).Str("node", c.Node).Str("pod_uid", a.guest.Pod).
			Msg("failed to read statistics of guest")
	}
	return last
}

// nextSlow returns until when the launcher of an answer gets the short timeout; false: it gets the full one. The full
// one is tried again from time to time, for a guest that answers again, but not at once.
func (c *Collector) nextSlow(a answer) (until time.Time, isSlow bool) {
	if result(a.err) != resultTimeout {
		return time.Time{}, false
	}
	now := time.Now()
	if until = c.slow[a.guest.Pod]; now.Before(until) {
		return until, true
	}
	return now.Add(shortFor), true
}

// ask asks the launchers of guests at the same time.
func (c *Collector) ask(guests []forward.Guest) []answer {
	full, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	short, cancelShort := context.WithTimeout(full, min(shortTimeout, c.Timeout))
	defer cancelShort()
	now := time.Now()
	answers := make([]answer, len(guests))
	var all sync.WaitGroup
	for i, g := range guests {
		if answers[i].guest = g; g.Launcher == nil {
			answers[i].err = launchers.ErrDisconnected
			continue
		}
		ctx := full
		if now.Before(c.slow[g.Pod]) {
			ctx = short
		}
		all.Go(func() { answers[i].statistics, answers[i].err = g.Launcher.Statistics(ctx) })
	}
	all.Wait()
	return answers
}

// knownOf returns what is known of a guest, which it reads when its pod is first scraped.
func (c *Collector) knownOf(g forward.Guest) (*known, error) {
	if k := c.known[g.Pod]; k != nil {
		return k, nil
	}
	m, err := c.Machine(g.Pod)
	if err != nil {
		return nil, err
	}
	if m.VMI != g.VMI {
		return nil, fmt.Errorf("pod %s is not that of %s/%s (%s)", g.Pod, g.VMI.Namespace, g.VMI.Name, g.VMI.UID)
	}
	return newKnown(c.Node, m), nil
}

// Results of which more depends than a label.
const (
	resultTimeout = "timeout"
	resultFailed  = "failed"
)

// result returns the metric's label for the outcome of asking a launcher.
func result(err error) string {
	switch {
	case err == nil:
		return "read"
	case errors.Is(err, launchers.ErrNoGuest):
		return "no_guest"
	case errors.Is(err, launchers.ErrNoStatistics):
		return "unsupported"
	case errors.Is(err, launchers.ErrDisconnected):
		return "disconnected"
	case errors.Is(err, context.DeadlineExceeded):
		return resultTimeout
	}
	return resultFailed
}
