package launchers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// startTimeout covers libvirt's slowest start seen: its capability probe (4 s) on a busy node, and the guest's own
	// start.
	startTimeout = 2 * time.Minute
	// firstTimeout is how long a launcher may take to answer the first request for its domain.
	firstTimeout = 10 * time.Second
	// A launcher that sends more often than this is read no faster: only its own buffers fill up.
	changesPerSecond, changesAtOnce = 5, 20
)

// Launcher is a connection to the launcher in one pod. It is safe for concurrent use.
type Launcher struct {
	// Peer is the process that serves the connection.
	Peer *Peer

	uid  string
	conn net.Conn
	cc   *grpc.ClientConn
	rpc  rpc.LauncherClient
}

// RefusedError is the error of a launcher that was reached and will not start the domain, however often it is asked.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// Close ends the connection and all calls on it.
func (l *Launcher) Close() {
	l.cc.Close()
	l.conn.Close()
	l.Peer.Close()
}

// StartDomain has the launcher start its domain, and returns it as it then is. It fails with a RefusedError when the
// VMI makes no domain or libvirt refuses it.
func (l *Launcher) StartDomain(ctx context.Context, interfaces []Interface) (contract.DomainObservation, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	d, err := l.rpc.StartDomain(ctx, &rpc.StartDomainRequest{Interfaces: PodInterfaces(interfaces)})
	if err != nil {
		return contract.DomainObservation{}, l.failure("starting the domain", err)
	}
	return observation(l.uid, d), nil
}

// operations maps operations to the launcher's names.
func operations() map[contract.Operation]rpc.Operation {
	return map[contract.Operation]rpc.Operation{
		contract.OperationPause:      rpc.Operation_OPERATION_PAUSE,
		contract.OperationUnpause:    rpc.Operation_OPERATION_UNPAUSE,
		contract.OperationFreeze:     rpc.Operation_OPERATION_FREEZE,
		contract.OperationUnfreeze:   rpc.Operation_OPERATION_THAW,
		contract.OperationSoftReboot: rpc.Operation_OPERATION_SOFT_REBOOT,
		contract.OperationReset:      rpc.Operation_OPERATION_RESET,
		contract.OperationEnd:        rpc.Operation_OPERATION_END,
		contract.OperationResize:     rpc.Operation_OPERATION_RESIZE,
	}
}

// Operate has the launcher do one thing to its running domain, and returns the domain as it then is. It fails with a
// RefusedError when the domain, the guest or its agent does not allow it.
func (l *Launcher) Operate(ctx context.Context, in contract.OperateDomainInput) (contract.DomainObservation, error) {
	ctx, cancel := context.WithTimeout(ctx, rpc.OperationAnswered)
	defer cancel()
	operation, known := operations()[in.Operation]
	if !known {
		return contract.DomainObservation{},
			&RefusedError{Message: fmt.Sprintf("%.32q is no operation", string(in.Operation))}
	}
	request := &rpc.OperateRequest{Operation: operation, ThawAfterSeconds: in.ThawAfter, GraceSeconds: in.Grace}
	for _, c := range in.Claims {
		request.Claims = append(request.Claims,
			&rpc.ClaimSize{Volume: c.Volume, Capacity: c.Capacity, Requests: c.Requests})
	}
	d, err := l.rpc.Operate(ctx, request)
	if status.Code(err) == codes.Unimplemented {
		return contract.DomainObservation{},
			&RefusedError{Message: "its launcher is of an older version, which cannot do that; restart the " +
				"virtual machine"}
	}
	if err != nil {
		return contract.DomainObservation{}, l.failure(string(in.Operation), err)
	}
	return observation(l.uid, d), nil
}

// Watch calls changed with the domain as it is and after each change, until ctx or the connection ends; the error is
// never nil.
func (l *Launcher) Watch(ctx context.Context, changed func(contract.DomainObservation)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(firstTimeout, cancel)
	defer late.Stop()
	stream, err := l.rpc.Watch(ctx, &rpc.WatchRequest{})
	if err != nil {
		return l.failure("watching the domain", err)
	}
	limiter := rate.NewLimiter(changesPerSecond, changesAtOnce)
	for {
		if err := limiter.Wait(ctx); err != nil {
			return fmt.Errorf("watching the domain of pod %s: %w", l.uid, err)
		}
		d, err := stream.Recv()
		if err != nil {
			return l.failure("watching the domain", err)
		}
		late.Stop()
		changed(observation(l.uid, d))
	}
}

// failure returns the error of a call, by gRPC or the launcher; the text of the latter is limited and sanitised.
func (l *Launcher) failure(doing string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s of pod %s: the launcher ended the call", doing, l.uid)
	}
	s := status.Convert(err)
	message := sanitize(s.Message(), maxText)
	switch s.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition:
		return &RefusedError{Message: message}
	default:
		return fmt.Errorf("%s of pod %s: %s: %s", doing, l.uid, s.Code(), message)
	}
}
