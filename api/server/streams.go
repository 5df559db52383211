package server

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/internal/certificates"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/streams/wire"
)

// streams returns the handlers of streams to guests, with the certificates by which nodes authenticate this process.
func (o *Options) streams(
	mgr ctrl.Manager, expiry certificates.Expiry, p *process.Process,
) (subresources.Streams, error) {
	names := certificates.AccessOptions{
		Own:    types.NamespacedName{Namespace: o.Namespace, Name: o.AccessSecret},
		Nodes:  types.NamespacedName{Namespace: o.Namespace, Name: o.NodeAccessSecret},
		Expiry: expiry,
	}
	secrets, err := certificates.WatchSecrets(mgr, names.Own, names.Nodes)
	if err != nil {
		return subresources.Streams{}, err
	}
	access := certificates.NewAccess(secrets, mgr.GetClient(), names, p.Log)
	if err := access.SetUp(mgr, secrets); err != nil {
		return subresources.Streams{}, err
	}
	all := streams.New(streams.Options{
		Log: p.Log, Registry: p.Registry, Lookup: subresources.Lookup{Reader: mgr.GetAPIReader()},
		Origins: o.StreamOrigins,
		Nodes: &streams.Nodes{
			Reader: mgr.GetAPIReader(), Namespace: o.Namespace, Label: o.NodeWorker, Client: access.Client,
			Port: wire.Port,
		},
	})
	// The server waits for answers, but not for streams: a process that shuts down closes them, and the client opens
	// another.
	ending := manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		all.Close()
		return nil
	})
	if err := mgr.Add(ending); err != nil {
		return subresources.Streams{}, fmt.Errorf("setting up access to guests: %w", err)
	}
	return all.Handlers(), nil
}
