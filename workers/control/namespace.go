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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Retention is how long the history of a finished workflow is kept.
const Retention = 90 * 24 * time.Hour

// EnsureNamespace registers the namespace and virtflow's search attributes if they are missing, and then waits until
// the namespace can be used. If nothing is missing, it makes two requests. Several workers may call it at once.
func EnsureNamespace(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	err := temporalclient.NamespaceExists(ctx, c, namespace)
	wasMissing := isMissing(err)
	if wasMissing {
		err = registerNamespace(ctx, c, namespace, log)
	}
	if err != nil {
		return err
	}
	var added bool
	_ = temporalclient.Retry().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		added, err = ensureSearchAttributes(ctx, c, namespace, log)
		return !wasMissing || !isMissing(err), nil // Temporal caches for a moment that it did not exist
	})
	if err != nil || !wasMissing && !added {
		return err
	}
	return awaitNamespace(ctx, c, namespace, log)
}

func isMissing(err error) bool {
	var missing *serviceerror.NamespaceNotFound
	return errors.As(err, &missing)
}

func registerNamespace(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "Virtual machines of virtflow",
		WorkflowExecutionRetentionPeriod: durationpb.New(Retention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	switch {
	case err == nil:
		log.Info().Str("temporal_namespace", namespace).Msg("registered the namespace")
	case errors.As(err, &exists):
	case isNotPermitted(err):
		return fmt.Errorf("the Temporal namespace %s does not exist, and this worker may not register it: %w",
			namespace, err)
	default:
		return fmt.Errorf("registering the Temporal namespace %s: %w", namespace, err)
	}
	return nil
}

// isNotPermitted reports whether an error is hosted Temporal's answer to a worker that is not permitted to register
// anything, so that an administrator has to do it beforehand.
func isNotPermitted(err error) bool {
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	return errors.As(err, &denied) || errors.As(err, &unimplemented)
}

// ensureSearchAttributes adds the missing search attributes, and reports whether there were any.
func ensureSearchAttributes(
	ctx context.Context, c client.Client, namespace string, log zerolog.Logger,
) (added bool, err error) {
	op := c.OperatorService()
	have, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if isNotPermitted(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("listing the search attributes of namespace %s: %w", namespace, err)
	}
	missing := map[string]enums.IndexedValueType{}
	for _, name := range contract.SearchAttributes() {
		kind, ok := have.GetCustomAttributes()[name]
		if !ok {
			missing[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
		} else if kind != enums.INDEXED_VALUE_TYPE_KEYWORD {
			return false, fmt.Errorf(
				"search attribute %s of namespace %s is of type %s, not Keyword: remove it, or use another namespace",
				name, namespace, kind)
		}
	}
	if len(missing) == 0 {
		return false, nil
	}
	_, err = op.AddSearchAttributes(ctx,
		&operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return false, fmt.Errorf("adding search attributes to namespace %s: %w", namespace, err)
	}
	log.Info().Str("temporal_namespace", namespace).Int("added", len(missing)).Msg("registered search attributes")
	return true, nil
}

// awaitNamespace waits until every part of Temporal has the namespace and its attributes: they are cached there for a
// few seconds, and a workflow that uses an unknown attribute fails its task.
func awaitNamespace(ctx context.Context, c client.Client, namespace string, log zerolog.Logger) error {
	request := &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace,
		Query: contract.SearchActor + " = 'none'"}
	var last error
	err := temporalclient.Retry().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if _, last = c.WorkflowService().CountWorkflowExecutions(ctx, request); last != nil {
			log.Info().Err(last).Msg("waiting until namespace is ready")
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for namespace %s: %w", namespace, errors.Join(err, last))
	}
	return nil
}
