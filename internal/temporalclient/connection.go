package temporalclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

const (
	// keepaliveTime and keepaliveTimeout are those of Temporal's own clients.
	keepaliveTime, keepaliveTimeout = 30 * time.Second, 15 * time.Second
	// maxAnswer is the largest answer that callers of Connect accept: payloads have at most 2 MiB each.
	maxAnswer = 16 << 20
)

// Connect returns a plain gRPC connection to Temporal's frontend, without the SDK. It connects on first use, and again
// whenever the connection is lost.
func (o *Options) Connect(extra ...grpc.UnaryClientInterceptor) (*grpc.ClientConn, error) {
	if o.Address == "" {
		return nil, errors.New("--temporal-address is not set: give host:port of Temporal's frontend")
	}
	secure := insecure.NewCredentials()
	if t, err := o.tlsConfig(); err != nil {
		return nil, err
	} else if t != nil {
		secure = o.transport(t)
	}
	if o.APIKeyFile != "" {
		extra = append(extra, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			key, err := o.apiKey()
			if err != nil {
				return err
			}
			return next(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key), method, req, reply, cc,
				opts...)
		})
	}
	c, err := grpc.NewClient(o.Address,
		grpc.WithTransportCredentials(secure),
		grpc.WithChainUnaryInterceptor(extra...),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to Temporal at %s: %w", o.Address, err)
	}
	return c, nil
}

// transport returns TLS credentials that read the CA again at each handshake, so that a rotated one needs no restart.
func (o *Options) transport(t *tls.Config) credentials.TransportCredentials {
	return rereading{TransportCredentials: credentials.NewTLS(t), config: o.tlsConfig}
}

type rereading struct {
	credentials.TransportCredentials
	config func() (*tls.Config, error)
}

func (r rereading) ClientHandshake(
	ctx context.Context, authority string, c net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	t, err := r.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(t).ClientHandshake(ctx, authority, c)
}

func (r rereading) Clone() credentials.TransportCredentials {
	return rereading{TransportCredentials: r.TransportCredentials.Clone(), config: r.config}
}
