package dhcp

import (
	"context"
	"fmt"
	"net"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/rs/zerolog"
)

// Serve starts answering on the lease's interface and returns; it stops when ctx ends. Port 67 has to be allowed to
// this user in the network namespace (net.ipv4.ip_unprivileged_port_start).
func Serve(ctx context.Context, l Lease, log zerolog.Logger) error {
	address := &net.UDPAddr{Port: dhcpv4.ServerPort}
	conn, err := server4.NewIPv4UDPConn(l.Interface, address)
	if err != nil {
		return fmt.Errorf("listening for DHCP on %s: %w", l.Interface, err)
	}
	server, err := server4.NewServer(l.Interface, address,
		func(conn net.PacketConn, peer net.Addr, request *dhcpv4.DHCPv4) { answer(conn, peer, request, l, log) },
		server4.WithConn(limit(ctx, conn)))
	if err != nil {
		return fmt.Errorf("listening for DHCP on %s: %w", l.Interface, err)
	}
	go func() {
		if err := server.Serve(); err != nil && ctx.Err() == nil {
			log.Error().Err(err).Str("interface", l.Interface).Msg("DHCP ended")
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

func answer(conn net.PacketConn, peer net.Addr, request *dhcpv4.DHCPv4, l Lease, log zerolog.Logger) {
	reply, err := Reply(l, request)
	if err != nil {
		log.Warn().Err(err).Msg("a DHCP request could not be answered")
		return
	}
	if reply == nil {
		return
	}
	if _, err := conn.WriteTo(reply.ToBytes(), peer); err != nil {
		log.Warn().Err(err).Stringer("type", reply.MessageType()).Msg("a DHCP answer could not be sent")
		return
	}
	log.Info().Stringer("type", reply.MessageType()).Stringer("address", reply.YourIPAddr).Msg("answered DHCP")
}
