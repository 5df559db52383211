package streams

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/internal/streams/wire"
)

const (
	// dialTimeout is the time that a node has to accept a connection, answerTimeout the time until its answer: it may
	// have to wait for a guest that does not accept a connection, or for an agent that does not answer.
	dialTimeout   = 5 * time.Second
	answerTimeout = 50 * time.Second
	// largestError is the part of a node's error text that is read, in bytes.
	largestError = 4 << 10
	// candidates is the most pods that an instance may have on one node at a time; more are not tried.
	candidates = 4
)

// Nodes finds node workers and sends them requests.
type Nodes struct {
	// Reader lists pods, not from a cache: this process watches none.
	Reader client.Reader
	// Namespace and Label select the pods of node workers.
	Namespace string
	Label     string // value of app.kubernetes.io/name
	// Client is the TLS configuration of the API server's own role.
	Client func() (*tls.Config, error)
	// Port of the node workers, usually wire.Port.
	Port int
}

// conn is a connection to a node worker after its answer.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func (c *conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// stream requests a stream from the node worker at an address, and returns the connection.
func (n *Nodes) stream(
	ctx context.Context, address string, vmi *kubevirtv1.VirtualMachineInstance, what string, query url.Values,
) (*conn, error) {
	c, response, err := n.ask(ctx, address, vmi, what, query, wire.Upgrade) //nolint:bodyclose // its body is the connection
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		c.Close()
		return nil, internalError("the node answered " + response.Status)
	}
	return c, nil
}

// read sends a request that is answered at once; the caller closes the body.
func (n *Nodes) read(
	ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance, what string, query url.Values,
) (*http.Response, error) {
	address, err := n.address(ctx, vmi.Status.NodeName)
	if err != nil {
		return nil, err
	}
	c, response, err := n.ask(ctx, address, vmi, what, query, "")
	if err != nil {
		return nil, err
	}
	response.Body = body{response.Body, c}
	return response, c.SetDeadline(time.Now().Add(answerTimeout))
}

// body closes its connection with itself.
type body struct {
	io.Reader
	io.Closer
}

// ask tries each pod that the instance may have on its node, until the node worker knows one. A refusal is an error
// with KubeVirt's codes.
func (n *Nodes) ask(
	ctx context.Context, address string, vmi *kubevirtv1.VirtualMachineInstance, what string, query url.Values,
	upgrade string,
) (*conn, *http.Response, error) {
	failed := internalError("the node worker does not know the guest's launcher yet")
	for _, pod := range podsOn(vmi) {
		u := url.URL{Scheme: "https", Host: wire.ServerName, Path: wire.Path(string(vmi.UID), pod, what),
			RawQuery: query.Encode()}
		c, response, err := n.call(ctx, address, &u, upgrade)
		if err != nil {
			return nil, nil, internalError("dialing node " + vmi.Status.NodeName + ": " + err.Error())
		}
		if response.StatusCode < http.StatusMultipleChoices {
			return c, response, nil
		}
		text, _ := io.ReadAll(io.LimitReader(response.Body, largestError)) // a part is better than none
		c.Close()
		failed = refusal(response.StatusCode, string(text))
		if response.StatusCode != http.StatusNotFound {
			break
		}
	}
	return nil, nil, failed
}

// refusal returns the error for the user from a node's answer: KubeVirt's 500, except where the node's limit is reached
// or another attempt may succeed.
func refusal(code int, text string) error {
	switch code {
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequestsError(text)
	case http.StatusServiceUnavailable:
		return subresources.Unavailable(text)
	}
	return internalError(text)
}

// call sends one request on a connection of its own, which it returns open, without a deadline.
func (n *Nodes) call(ctx context.Context, address string, u *url.URL, upgrade string) (*conn, *http.Response, error) {
	config, err := n.Client()
	if err != nil {
		return nil, nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&tls.Dialer{Config: config}).DialContext(dialing, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	c := &conn{Conn: raw, in: bufio.NewReader(raw)}
	left := context.AfterFunc(ctx, func() { raw.Close() })
	response, err := c.roundTrip(u, upgrade)
	if !left() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, nil, err
	}
	return c, response, nil
}

func (c *conn) roundTrip(u *url.URL, upgrade string) (*http.Response, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	r := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host,
		Header: http.Header{"User-Agent": {wire.ClientName}}, ProtoMajor: 1, ProtoMinor: 1}
	if upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
	}
	if err := r.Write(c.Conn); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.in, r)
	if err != nil {
		return nil, err
	}
	return response, c.SetDeadline(time.Time{})
}

// address returns the address of a node's worker.
func (n *Nodes) address(ctx context.Context, node string) (string, error) {
	none := apierrors.NewBadRequest(fmt.Sprintf("No virt-handler on node %s found", node))
	if node == "" {
		return "", none
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	pods := &corev1.PodList{}
	err := n.Reader.List(ctx, pods, client.InNamespace(n.Namespace),
		client.MatchingLabels{"app.kubernetes.io/name": n.Label}, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return "", internalError("listing node workers of " + node + ": " + err.Error())
	}
	// During a rollout the previous pod may still exist.
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int { return podRank(&a) - podRank(&b) })
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.PodIP != "" && p.Spec.NodeName == node {
			return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(n.Port)), nil
		}
	}
	return "", none
}

// podRank returns a lower number for a pod that is more likely to answer.
func podRank(p *corev1.Pod) int {
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
		return 1
	}
	return 0
}

// podsOn returns the UIDs of the instance's pods on its node. The node worker checks to whom they belong.
func podsOn(vmi *kubevirtv1.VirtualMachineInstance) []string {
	var all []string
	for uid, node := range vmi.Status.ActivePods {
		if node == vmi.Status.NodeName {
			all = append(all, string(uid))
		}
	}
	slices.Sort(all)
	return all[:min(len(all), candidates)]
}

// isClosed reports whether a connection was closed during its use, as all streams end.
func isClosed(err error) bool {
	return err == nil || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "connection reset")
}
