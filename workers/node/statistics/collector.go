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
	pods  map[string]pod // by UID
	last  []prometheus.Metric
	until time.Time // when last is too old
}

// pod has what scrapes keep of a launcher's pod for the next one.
type pod struct {
	// known is nil until Kubernetes' side of the guest is read.
	known *known
	// slowUntil is until when the launcher gets shortTimeout.
	slowUntil time.Time
	// loggedAt is when a failure was last logged.
	loggedAt time.Time
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
	shown, pods, now := map[name]bool{}, map[string]pod{}, time.Now()
	for _, a := range c.ask(guests) {
		p := c.pods[a.guest.Pod]
		p.slowUntil = slowUntil(p.slowUntil, now, a.err)
		if p.known == nil {
			known, err := c.read(a.guest)
			p.known, a.err = known, cmp.Or(a.err, err)
		}
		c.results.WithLabelValues(result(a.err)).Inc()
		p.loggedAt = c.logFailure(a, p.loggedAt, now)
		pods[a.guest.Pod] = p
		// A VMI has one running guest. A launcher that claims to have it as well must not spoil the whole scrape.
		if this := (name{a.guest.VMI.Namespace, a.guest.VMI.Name}); a.err == nil && !isRepeated(shown, this) {
			metrics, dropped := p.known.emit(a.statistics, c.kinds)
			out = append(out, metrics...)
			c.dropped.Add(float64(dropped))
		}
	}
	c.pods = pods
	return out
}

// logFailure logs why the statistics of a guest could not be read, once in logEvery, since a launcher may fail and
// succeed in turn. It returns when a failure of the pod was last logged.
func (c *Collector) logFailure(a answer, last, now time.Time) time.Time {
	if result(a.err) != resultFailed || now.Sub(last) < logEvery {
		return last
	}
	c.Log.Warn().Err(a.err).Str("namespace", a.guest.VMI.Namespace).Str("name", a.guest.VMI.Name).
		Str("uid", a.guest.VMI.UID).Str("node", c.Node).Str("pod_uid", a.guest.Pod).
		Msg("failed to read statistics of guest")
	return now
}

// slowUntil returns until when a launcher gets the short timeout, from what that was before an answer. The full one is
// tried again from time to time, for a guest that answers again, but not at once.
func slowUntil(before, now time.Time, err error) time.Time {
	switch {
	case result(err) != resultTimeout:
		return time.Time{}
	case now.Before(before):
		return before
	}
	return now.Add(shortFor)
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
		if now.Before(c.pods[g.Pod].slowUntil) {
			ctx = short
		}
		all.Go(func() { answers[i].statistics, answers[i].err = g.Launcher.Statistics(ctx) })
	}
	all.Wait()
	return answers
}

// read returns what Kubernetes knows of a guest.
func (c *Collector) read(g forward.Guest) (*known, error) {
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
