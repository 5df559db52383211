package inflight_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/inflight"
)

// silent is a connection from an address.
type silent struct {
	net.Conn
	from   string
	closed bool
}

func (s *silent) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(s.from), 1))
}

func (s *silent) Close() error {
	s.closed = true
	return nil
}

// TestHandshakesDisplaceOthers: "a" is an expected address, "b", "c", … are others; the last of each case is the new
// one. The limit is 8, and 3 of one address that is not expected.
func TestHandshakesDisplaceOthers(t *testing.T) {
	for name, c := range map[string]struct {
		from    string
		nothing bool // is expected
		closed  []int
	}{
		"there is place":               {from: "aabbcc"},
		"an address has all it may":    {from: "bcbbb", closed: []int{0}},
		"an expected one has no bound": {from: "bbaaaa"},
		"others' places are taken: the oldest of the address that has most": {from: "bcdcf", closed: []int{1}},
		"all have one":                     {from: "bcdef", closed: []int{0}},
		"the expected one's are taken":     {from: "bcaaaaa", closed: []int{2}},
		"others close no expected ones":    {from: "aaaabcdef", closed: []int{4}},
		"the expected close no other ones": {from: "bcdeaaaa"},
		"nothing is expected":              {from: "bcdefghi", nothing: true},
		"nothing is expected, and full":    {from: "bcddefghi", nothing: true, closed: []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &inflight.Handshakes{Max: 8, Each: 3, Expected: func(a netip.Addr) bool {
				return a == netip.MustParseAddr("::a")
			}}
			if c.nothing {
				h.Expected = nil
			}
			var all []*silent
			for _, from := range strings.Split(c.from, "") {
				s := &silent{from: "::" + strings.NewReplacer("g", "10", "h", "11", "i", "12").Replace(from)}
				all = append(all, s)
				h.Admit(s)
			}
			var closed []int
			for i, s := range all {
				if s.closed {
					closed = append(closed, i)
				}
			}
			require.Equal(t, c.closed, closed)
		})
	}
}

// TestHandshakesThatHaveEnded: handshakes that have ended do not count, and their connections are not closed.
func TestHandshakesThatHaveEnded(t *testing.T) {
	h := &inflight.Handshakes{Max: 1, Each: 1}
	var all []*silent
	for range 3 {
		s := &silent{from: "::ffff:10.0.0.1"}
		all = append(all, s)
		h.Admit(s)
		h.End(s)
		h.End(s)
	}
	require.False(t, slices.ContainsFunc(all, func(s *silent) bool { return s.closed }))
}
