package gateway

import (
	"math"
	"strings"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// In-flight limits of one node: a node worker has two polls, which last a minute each, and there are two
	// workers while one replaces the other. Temporal counts them all in its limits of a namespace.
	pollsAtOnce, callsOpenAtOnce = 8, 32
	// maxCallsOpen is the in-flight limit of all nodes together, without polls. It bounds the requests in memory.
	maxCallsOpen = 512
	// noLimit is for polls and connections, which only the limits of each node bound.
	noLimit = math.MaxInt
)

// acquire counts a call of a node while it is open, within the node's quota. Polls have a limit of their own:
// they must not block answers.
func (g *Gateway) acquire(node, method string) (release func(), err error) {
	in, all, most := &g.calls, maxCallsOpen, callsOpenAtOnce
	if isPoll(method) {
		in, all, most = &g.polls, noLimit, pollsAtOnce
	}
	release, err = in.Acquire(all, inflight.Quota{Owner: node, Max: most})
	if err != nil {
		return nil, refuse(ReasonTooMany, "too many calls of this kind are open: the limit is %d for node %s and %d "+
			"for all nodes", most, node, all)
	}
	return release, nil
}

func isPoll(method string) bool { return strings.HasPrefix(method, "Poll") }
