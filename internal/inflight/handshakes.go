package inflight

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Handshakes holds the connections whose other end is not authenticated yet, and bounds them without making a new one
// wait: an old one is closed instead. It is safe for concurrent use, and must not be copied.
//
// Half of Max are for expected addresses: connections from elsewhere, however many, do not displace theirs.
type Handshakes struct {
	// Max is the most connections. Without Expected all of them are for any address.
	Max int
	// Each is the most connections of one address, unless it is expected.
	Each int
	// Expected reports whether connections from an address are expected. It may be nil.
	Expected func(netip.Addr) bool

	mu   sync.Mutex
	open []handshake // the oldest first
}

type handshake struct {
	conn     net.Conn
	from     netip.Addr // the zero value: not known
	expected bool
}

// Begin holds a connection until End. If that is one too many, it returns another, which it no longer holds and the
// caller must close: the oldest of the same address or, if that address is within its quota, the oldest of the address
// with the most. It returns nil if the limit is not reached.
func (h *Handshakes) Begin(conn net.Conn) (surplus net.Conn) {
	begun := handshake{conn: conn, from: addressOf(conn)}
	quota := h.Max
	if h.Expected != nil {
		begun.expected = h.Expected(begun.from)
		quota = max(1, h.Max/2)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	surplus = h.surplus(begun, quota)
	h.open = append(h.open, begun)
	return surplus
}

// Admit holds a connection until End, and closes the one that Begin would return.
func (h *Handshakes) Admit(conn net.Conn) {
	if surplus := h.Begin(conn); surplus != nil {
		_ = surplus.Close()
	}
}

// surplus removes the connection that a new one displaces; nil if the limit is not reached. The caller holds the lock.
func (h *Handshakes) surplus(begun handshake, quota int) net.Conn {
	all, of := 0, map[netip.Addr]int{}
	for _, o := range h.open {
		if o.expected == begun.expected {
			all++
			of[o.from]++
		}
	}
	from := begun.from
	switch {
	case !begun.expected && of[from] >= h.Each:
	case all < quota:
		return nil
	default:
		most := 0
		for _, o := range h.open { // of addresses with equally many, the one with the oldest
			if n := of[o.from]; o.expected == begun.expected && n > most {
				from, most = o.from, n
			}
		}
	}
	i := slices.IndexFunc(h.open, func(o handshake) bool { return o.expected == begun.expected && o.from == from })
	conn := h.open[i].conn
	h.open = slices.Delete(h.open, i, i+1)
	return conn
}

// End no longer holds a connection: its other end is authenticated, or it is closed. It may be called more than once.
func (h *Handshakes) End(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = slices.DeleteFunc(h.open, func(o handshake) bool { return o.conn == conn })
}

func addressOf(conn net.Conn) netip.Addr {
	a, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return a.Addr().Unmap()
}
