package subresources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// largestOptions is far above the size of any options.
const largestOptions = 64 << 10

// read reads a whole body of at most so many bytes; its time is bounded.
func read(r *Request, largest int64) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, largest))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", large.Limit))
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Can not read the request's body: %v", err))
	}
	return data, nil
}

// decode reads options, as JSON or YAML; without a body they stay as they are.
func decode(r *Request, into any) error {
	data, err := read(r, largestOptions)
	if data = bytes.TrimSpace(data); err != nil || len(data) == 0 {
		return err
	}
	if data[0] != '{' {
		// An anchor would expand few bytes to many.
		if bytes.ContainsRune(data, '&') {
			return unreadableBody(errors.New("'&' is not taken in YAML"))
		}
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return unreadableBody(err)
		}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return unreadableBody(err)
	}
	return nil
}

// unreadableBody returns KubeVirt's error for a body that cannot be decoded.
func unreadableBody(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("Can not unmarshal Request body to struct, error: %v", err))
}

// dryRun reports whether nothing must be written, and returns an error for an unknown dry run directive.
func dryRun(directives []string) (bool, error) {
	for _, d := range directives {
		if d != metav1.DryRunAll {
			return false, apierrors.NewBadRequest(
				fmt.Sprintf("dryRun: %q is not known; only %q is", d, metav1.DryRunAll))
		}
	}
	return len(directives) > 0, nil
}
