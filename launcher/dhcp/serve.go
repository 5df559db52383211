package dhcp

import (
	"context"
	"fmt"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/server6"
	"github.com/rs/zerolog"
	"golang.org/x/net/ipv6"
)

// Serve starts to answer on the lease's interface and returns; it stops when ctx ends. The network namespace must allow
// port 67 to this user (net.ipv4.ip_unprivileged_port_start).
func Serve(ctx context.Context, l Lease, log zerolog.Logger) error {
	address := &net.UDPAddr{Port: dhcpv4.ServerPort}
	conn, err := server4.NewIPv4UDPConn(l.Interface, address)
	if err != nil {
		return fmt.Errorf("listening for DHCP on %s: %w", l.Interface, err)
	}
	server, err := server4.NewServer(l.Interface, address,
		func(conn net.PacketConn, peer net.Addr, request *dhcpv4.DHCPv4) { answer(conn, peer, request, l, log) },
		server4.WithConn(limitRate(ctx, conn)))
	if err != nil {
		return fmt.Errorf("listening for DHCP on %s: %w", l.Interface, err)
	}
	keepServing(ctx, server, l.Interface, log)
	return nil
}

// keepServing runs a server until ctx ends.
func keepServing(ctx context.Context, server interface {
	Serve() error
	Close() error
}, name string, log zerolog.Logger,
) {
	go func() {
		if err := server.Serve(); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Str("interface", name).Msg("failed to serve DHCP")
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
}

func answer(conn net.PacketConn, peer net.Addr, request *dhcpv4.DHCPv4, l Lease, log zerolog.Logger) {
	reply, err := Reply(l, request)
	if err != nil {
		log.Warn().Err(err).Msg("failed to build DHCP answer")
		return
	}
	if reply == nil {
		return
	}
	if _, err := conn.WriteTo(reply.ToBytes(), peer); err != nil {
		log.Warn().Err(err).Stringer("type", reply.MessageType()).Msg("failed to send DHCP answer")
		return
	}
	log.Info().Stringer("type", reply.MessageType()).Stringer("address", reply.YourIPAddr).Msg("answered DHCP")
}

// Serve6 starts to answer on the lease's interface and returns; it stops when ctx ends. Port 547 must be allowed as
// port 67 is for Serve.
func Serve6(ctx context.Context, l Lease6, log zerolog.Logger) error {
	link, err := net.InterfaceByName(l.Interface)
	if err != nil {
		return fmt.Errorf("listening for DHCPv6 on %s: %w", l.Interface, err)
	}
	l.Server = link.HardwareAddr
	address := &net.UDPAddr{IP: net.IPv6unspecified, Port: dhcpv6.DefaultServerPort}
	conn, err := server6.NewIPv6UDPConn(l.Interface, address)
	if err != nil {
		return fmt.Errorf("listening for DHCPv6 on %s: %w", l.Interface, err)
	}
	group := &net.UDPAddr{IP: dhcpv6.AllDHCPRelayAgentsAndServers, Port: dhcpv6.DefaultServerPort}
	if err := ipv6.NewPacketConn(conn).JoinGroup(link, group); err != nil {
		_ = conn.Close()
		return fmt.Errorf("listening for DHCPv6 on %s: %w", l.Interface, err)
	}
	server, err := server6.NewServer(l.Interface, address,
		func(conn net.PacketConn, peer net.Addr, request dhcpv6.DHCPv6) { answer6(conn, peer, request, l, log) },
		server6.WithConn(limitRate(ctx, conn)))
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("listening for DHCPv6 on %s: %w", l.Interface, err)
	}
	keepServing(ctx, server, l.Interface, log)
	return nil
}

func answer6(conn net.PacketConn, peer net.Addr, request dhcpv6.DHCPv6, l Lease6, log zerolog.Logger) {
	message, ok := request.(*dhcpv6.Message)
	if !ok {
		return // relayed, which the guest's messages are not
	}
	reply, err := Reply6(l, message)
	if err != nil {
		log.Warn().Err(err).Msg("failed to build DHCPv6 answer")
		return
	}
	if reply == nil {
		return
	}
	if _, err := conn.WriteTo(reply.ToBytes(), peer); err != nil {
		log.Warn().Err(err).Stringer("type", reply.Type()).Msg("failed to send DHCPv6 answer")
		return
	}
	log.Info().Stringer("type", reply.Type()).Stringer("address", l.Address).Msg("answered DHCPv6")
}
