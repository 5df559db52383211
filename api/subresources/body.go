package subresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decode reads an optional JSON body; an empty one leaves into as it is. It says whether there was one.
func decode(r *Request, into any) (bool, error) {
	data, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return false, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", large.Limit))
	case err != nil:
		return false, apierrors.NewBadRequest(fmt.Sprintf("Can not read the request's body: %v", err))
	case len(data) == 0:
		return false, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return true, apierrors.NewBadRequest(fmt.Sprintf("Can not unmarshal Request body to struct, error: %v", err))
	}
	return true, nil
}

// dryRun says whether nothing is to be written, or refuses what is no dry run directive.
func dryRun(directives []string) (bool, error) {
	for _, d := range directives {
		if d != metav1.DryRunAll {
			return false, apierrors.NewBadRequest(fmt.Sprintf("dryRun: %q is not known; only %q is", d, metav1.DryRunAll))
		}
	}
	return len(directives) > 0, nil
}
