package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAGatewayWhoseTokenIsRefused ends, unless that passes.
func TestAGatewayWhoseTokenIsRefused(t *testing.T) {
	refused, away := apierrors.NewUnauthorized("Unauthorized"), errors.New("connection refused")
	type answer struct {
		at  time.Duration
		err error
	}
	for name, c := range map[string]struct {
		answers []answer
		ends    bool
	}{
		"once":             {[]answer{{0, refused}}, false},
		"for a moment":     {[]answer{{0, refused}, {ownTokenPatience - 1, refused}}, false},
		"for good":         {[]answer{{0, refused}, {time.Second, refused}, {ownTokenPatience, refused}}, true},
		"and nobody asked": {[]answer{{0, refused}, {5 * time.Second, away}, {ownTokenPatience, refused}}, true},
		"until it passed":  {[]answer{{0, refused}, {time.Second, nil}, {ownTokenPatience, refused}}, false},
		"it is away":       {[]answer{{0, away}, {ownTokenPatience, away}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, began := ownToken{refused: make(chan error, 1)}, time.Unix(0, 0)
			for _, a := range c.answers {
				o.answered(a.err, began.Add(a.at))
			}
			require.Equal(t, c.ends, len(o.refused) == 1)
			o.answered(refused, began.Add(time.Hour)) // nobody listens: it does not block
			o.answered(refused, began.Add(2*time.Hour))
		})
	}
}
