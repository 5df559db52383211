package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Retention is how long the history of a finished workflow is kept.
const Retention = 90 * 24 * time.Hour

// EnsureNamespace registers the namespace and virtflow's search attributes where they are missing. Doing it again, or from several
// workers at once, changes nothing. It waits until a new namespace can be used, or ctx ends.
func EnsureNamespace(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	svc := c.WorkflowService()
	_, err := svc.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "Virtual machines of virtflow",
		WorkflowExecutionRetentionPeriod: durationpb.New(Retention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	switch {
	case err == nil:
		log.Info().Str("temporal_namespace", namespace).Msg("namespace registered")
	case errors.As(err, &exists):
	case errors.As(err, &denied), errors.As(err, &unimplemented):
		// Hosted Temporal does not let a worker register namespaces: then somebody has done it beforehand.
		log.Info().Err(err).Msg("namespace is not ours to register; it must exist")
	default:
		return fmt.Errorf("registering the Temporal namespace %s: %w", namespace, err)
	}
	if err := ensureSearchAttributes(ctx, c, namespace, log); err != nil {
		return err
	}
	return awaitNamespace(ctx, c, namespace, log)
}

func ensureSearchAttributes(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	op := c.OperatorService()
	have, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("listing the search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enums.IndexedValueType{}
	for _, name := range contract.SearchAttributes() {
		kind, ok := have.GetCustomAttributes()[name]
		if !ok {
			missing[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
		} else if kind != enums.INDEXED_VALUE_TYPE_KEYWORD {
			return fmt.Errorf("search attribute %s of namespace %s is of type %s, not Keyword: remove it, or use another namespace", name, namespace, kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = op.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("adding search attributes to namespace %s: %w", namespace, err)
	}
	log.Info().Int("added", len(missing)).Msg("search attributes registered")
	return nil
}

// awaitNamespace waits until every part of Temporal knows the namespace and its attributes: they are cached there for a few seconds, and
// a workflow that uses an unknown attribute fails its task.
func awaitNamespace(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	query := fmt.Sprintf("%s = 'none'", contract.SearchActor)
	for {
		_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query})
		if err == nil {
			return nil
		}
		log.Info().Err(err).Msg("waiting for the namespace")
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for namespace %s: %w", namespace, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}
